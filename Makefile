# The pipeline. Targets are the files that stages write. What they are made from decides whether they
# are made again, and not the times of files: lib/runs/identity.py compares it, for make and stages.

COLLECTION ?= layout-xla-default
OUTPUTS ?= outputs
VENV ?= .venv
PYTHON ?= python3

.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-print-directory
$(if $(filter grouped-target,$(.FEATURES)),,$(error GNU make $(MAKE_VERSION): 4.3 or later is needed))

# Values are checked before anything is written, deleted or run: they may be names of files that
# somebody has sent. Those of the first kind stand in paths, or bare in command lines; those of the
# second are quoted there. The third are for the programs, and make hands them on.
PLAIN := COLLECTION MODEL HOPS FOLDS JOBS OUTPUTS DATA VENV ARGS SUBMISSION SEED EPOCHS TTA ALSO ON \
	KEEP_GOING PARTIAL CONFIRM SPLITS KIND CORES ROUNDS SETTINGS TRIALS SEEDS BATCH DEVICE \
	METHOD BUDGET TOP MEASURE PYTHON SUBMAKE EXPERIMENT TABLE THREADS SHAPE SCHEDULES
QUOTED := A B PROGRAM CANDIDATES PROGRAMS NETWORKS NETWORK BASE_URL
HANDED_ON := NO_COLOR TGRAPH_NATIVE WANDB_%
quoted = '$(subst ','\'',$(1))'
define NEWLINE


endef
# (First by make itself: it would expand the values that it exports to a program of $(shell).)
GIVEN := $(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v)))
$(foreach v,$(PLAIN) $(QUOTED) $(GIVEN),\
	$(if $(findstring $$,$(value $(v))),$(error $(v): must have no dollar sign))\
	$(if $(findstring $(NEWLINE),$(value $(v))),$(error $(v): more than one line)))
ASK := $(call quoted,$(PYTHON)) -SEB -m lib.runs
SAID := $(shell $(ASK).variables check '$(MAKECMDGOALS)' '$(GIVEN)' $(QUOTED) $(HANDED_ON) \
	$(foreach v,$(PLAIN),$(if $(filter undefined,$(origin $(v))),$(v),$(call quoted,$(v)=$(value $(v))))))
$(if $(filter cores=%,$(SAID)),,$(error $(or $(SAID),PYTHON=$(PYTHON): does not run)))
needs = $(if $(and $(filter $(1),$(MAKECMDGOALS)),$(if $(value $(2)),,missing)),$(error usage: make $(1) $(3)))
$(call needs,rank,PROGRAM,PROGRAM=file [CANDIDATES=file|random:N|search:N] [TOP=10] [MEASURE=8])
$(foreach v,A B,$(call needs,compare,$(v),A=outputs/x B=outputs/y))

# Folds train side by side, one thread each; the number of jobs never changes a result. On GPUs they
# take turns, if nobody has named a number (lib/runs/turns.py), or a program that places them.
$(if $(value JOBS)$(value ON),,$(eval export TGRAPH_GPU_TURNS := 1))
JOBS := $(or $(value JOBS),$(patsubst cores=%,%,$(SAID)))
# As Python writes a path, for targets are compared with those that it names.
override export OUTPUTS := $(patsubst %/,%,$(subst //,/,$(subst //,/,$(subst /./,/,$(OUTPUTS)/))))
# (A make below another has its number of jobs, which stands in its environment alone.)
$(if $(findstring j,$(filter-out --%,$(MAKEFLAGS)))$(findstring --jobserver,$(shell echo "$$MAKEFLAGS")),,\
	$(eval MAKEFLAGS += -j$(JOBS)))

# (It would hide lib/ from programs.)
unexport PYTHONSAFEPATH
# Bytecode is kept, whatever is said elsewhere: programs start seconds faster by it.
unexport PYTHONDONTWRITEBYTECODE

# Flags: only what was given on the command line; everything else is the collection's own setting.
flag = $(if $($(1)),--$(2) $($(1)))
text = $(if $(value $(1)),--$(2)=$(call quoted,$(value $(1))))
TO := --outputs $(OUTPUTS)
NAMED = $(call flag,DATA,data) $(call flag,MODEL,model) $(call flag,EXPERIMENT,experiment)
PLACE = --collection $(COLLECTION) $(NAMED) $(call flag,HOPS,hops) $(call flag,SETTINGS,settings)
FLAGS = $(PLACE) $(call flag,SEED,seed) $(ARGS)
# Of all stages alike, for one compares what it reads with what it would have been made from.
TRAIN_FLAGS = $(FLAGS) $(call flag,EPOCHS,epochs) $(call flag,ALSO,also)
STAGE_FLAGS = $(TRAIN_FLAGS) $(call flag,TTA,permutations)
ALL_FLAGS = $(STAGE_FLAGS) $(call flag,FOLDS,folds) $(if $(KEEP_GOING),--keep-going)

# Where results are, the settings say. (Latencies are of programs, whatever else is the default.)
ifneq (,$(filter latency calibrate search,$(MAKECMDGOALS)))
override COLLECTION := $(or $(filter programs-%,$(COLLECTION)),programs-cpu)
endif
# What stages would make anew is out of date, and what follows from it when it has become another.
# (Under `make -n`, which must change nothing, nothing is kept for the next make.)
DRY := $(strip $(foreach letter,n q t,$(findstring $(letter),$(filter-out --%,$(firstword -$(MAKEFLAGS))))))
MAKES := $(filter all preprocess cached train infer ensemble weights tune $(OUTPUTS)/%,$(MAKECMDGOALS))
PLAN := $(shell $(ASK).make $(if $(MAKES),due $(TO) $(ALL_FLAGS) $(if $(DRY),,--keep),\
	paths $(PLACE) $(call flag,ALSO,also)) 2>&1)
planned = $(subst :, ,$(patsubst $(1)=%,%,$(filter $(1)=%,$(PLAN))))
$(if $(filter results=%,$(firstword $(PLAN))),,$(error $(PLAN)))
$(patsubst due=%,%,$(filter due=%,$(PLAN))): again
FOLD_COUNT := $(or $(value FOLDS),$(call planned,folds))
OUT := $(OUTPUTS)/$(call planned,results)
MANIFEST := $(OUTPUTS)/$(call planned,cache)/manifest.json
FOLD_NUMBERS := $(shell seq 0 $$(($(FOLD_COUNT) - 1)))
MODELS := $(FOLD_NUMBERS:%=$(OUT)/fold_%/metrics.json)
SCORES := $(FOLD_NUMBERS:%=$(OUT)/scores/fold_%.parquet)
RESULTS := $(OUT)/$(call planned,table) $(OUT)/metrics.json $(OUT)/report.html

# The stamp of the environment; with `-native` and so on at its end, those of what comes on top.
# Networks wait for torch-scatter only where it adds up for them (lib/models/common/scatter.py).
READY := $(VENV)/.ready
RUN := $(VENV)/bin/python
LOOPS := $(READY) $(READY)-native $(READY)-bytecode $(if $(filter $(call planned,scatter),any $(if $(wildcard /dev/nvidia[0-9]*),gpu)),$(READY)-scatter)
# A stage's command: `ON="srun -c2"` before it has it run elsewhere (docs/how-to/cluster.md). What
# it was to write must be there in the end: an engine may end well before its job does.
STAGE = $(if $(value ON),$(ON) )$(RUN)
WRITTEN = $(if $(value ON),@test -e $@ || { echo >&2 'error: $@: not there; has its job ended?'; exit 1; })

.PHONY: help all everything preprocess train infer ensemble rank weights submission score download tune \
	reproduce status compare wandb-sync setup test lint clean again cached

# `## text` after a target is its line in `make help`; `##@ title` begins a group.
help:  ## this list
	@$(ASK).variables help $(OUT)

##@ from raw graphs to a submission
all: $(RESULTS)  ## all four stages of COLLECTION, ending in its report.html
preprocess: $(MANIFEST)  ## stage 1: raw graphs to the cache
train: $(MODELS)  ## stage 2: a network for each of the first FOLDS folds
infer: $(SCORES)  ## stage 3: a score parquet a fold
ensemble: all  ## stage 4: blend, submission, metrics, report

$(MANIFEST): | $(READY)
	$(STAGE) 01_preprocess.py $(TO) $(STAGE_FLAGS) $(if $(KEEP_GOING),--keep-going) $(if $(value ON),,--jobs $(JOBS))
	$(WRITTEN)

# Other collections that are learned from: a make of its own for the cache of each.
OTHERS := $(addprefix $(OUTPUTS)/,$(addsuffix /manifest.json,$(call planned,others)))
cached: $(MANIFEST)  # like preprocess, and silent if there is nothing to do
	@:
$(OTHERS): $(OUTPUTS)/%/manifest.json: | $(READY)
	@+$(MAKE) cached COLLECTION=$(firstword $(subst /, ,$*)) ALSO=none SETTINGS= FOLDS=1

$(OUT)/fold_%/metrics.json: $(MANIFEST) $(OTHERS) | $(LOOPS)
	$(STAGE) 02_train.py $(TO) $(STAGE_FLAGS) --fold $* --folds $(FOLD_COUNT)
	$(WRITTEN)

$(OUT)/scores/fold_%.parquet: $(OUT)/fold_%/metrics.json | $(LOOPS)
	$(STAGE) 03_infer.py $(TO) $(STAGE_FLAGS) --fold $*
	$(WRITTEN)

$(RESULTS) &: $(SCORES) | $(READY)
	$(STAGE) 04_ensemble.py $(TO) $(STAGE_FLAGS) --folds $(FOLD_COUNT)
	$(WRITTEN)

# A make of its own for each collection: one that fails does not stop the others. One of another kind
# than MODEL's has its own.
EVERY = $(shell $(ASK).variables every '$(DATA)' '$(MODEL)')
everything: $(READY)  ## make all for every collection that has data
	@+done= failed=; for name in $(EVERY); do collection=$${name%%:*}; \
		if $(MAKE) all COLLECTION=$$collection $$(echo $${name#*:} | tr , ' '); then done="$$done $$collection"; \
		else failed="$$failed $$collection"; fi; \
	done; echo "everything: done:$${done:- none}; failed:$${failed:- none}"; [ "$$done" ] && [ -z "$$failed" ]

submission: $(READY)  ## merge the collections' submissions: [PARTIAL=1]
	$(RUN) -m lib.scoring.merge $(TO) $(NAMED) $(if $(PARTIAL),--partial)
score: $(READY)  ## score it where runtimes are known: [SUBMISSION="a.csv b.csv"]
	$(RUN) -m lib.scoring.score $(TO) $(NAMED) -- $(SUBMISSION)

##@ use what was learned
rank: | $(LOOPS) $(if $(value MEASURE),$(VENV)-collect/.ready)  ## rank the configurations of PROGRAM=file: [CANDIDATES=file|random:N|search:2000] [TOP=10] [MEASURE=8]
	@$(RUN) -m lib.scoring.rank $(TO) $(FLAGS) $(call text,CANDIDATES,candidates) $(call flag,TOP,top) \
		$(if $(MEASURE),--measure $(MEASURE) --jax $(VENV)-collect/bin/python) -- $(call quoted,$(value PROGRAM))
weights: $(RESULTS)  ## keep the weights of COLLECTION in data/weights, for make rank, search and latency
	$(RUN) -m $(if $(filter programs-%,$(COLLECTION)),lib.programs.latency.bundle,lib.scoring.weights) $(TO) $(FLAGS)

##@ look and compare
status: | $(READY)  ## all experiments of OUTPUTS by score, what is stale and why
	@$(RUN) -m lib.report.status $(TO) $(ALL_FLAGS)
compare: | $(READY)  ## two experiments side by side: A=outputs/x B=outputs/y [ARGS=--all]
	@$(RUN) -m lib.report.compare $(ARGS) -- $(call quoted,$(value A)) $(call quoted,$(value B))
# (W&B ends with 1 if it has no key. Of what it has uploaded it leaves a mark, whatever it ends with.)
wandb-sync: | $(READY)  ## upload the W&B runs of OUTPUTS that were kept offline
	@failed=; for run in $(OUTPUTS)/wandb/offline-run-*/; do \
		[ -d $$run ] && ! ls $$run*.synced >/dev/null 2>&1 || continue; \
		WANDB_DIR=$(OUTPUTS) WANDB_X_GRAPHQL_RETRY_MAX=2 timeout 100 $(RUN) -m wandb sync --yes $$run; \
		[ $$? != 1 ] || exit 1; \
		ls $$run*.synced >/dev/null 2>&1 || failed="$$failed $$run"; \
	done; [ -z "$$failed" ] || { echo >&2 "error: not uploaded, or not within 100 s:$$failed"; exit 1; }

tune: $(MANIFEST) $(OTHERS) | $(LOOPS) $(READY)-tune  ## which settings of COLLECTION and MODEL train best: [TRIALS=200] [FOLDS=1]
	$(RUN) -m lib.tune $(TO) $(TRAIN_FLAGS) $(call flag,FOLDS,folds) $(call flag,TRIALS,trials) \
		$(call text,ON,on) --jobs $(JOBS)

# A make of its own for each row, collection and seed. (Not $(MAKE) itself in the recipe, for then
# `make -n` would run it.)
SUBMAKE ?= $(MAKE)
reproduce: $(READY)  ## a paper's table beside ours: [TABLE=tgraph3] [SEEDS=3] [COLLECTION=]; without TABLE, which there are
	@$(RUN) -m lib.report.reproduce $(TABLE) --make $(call quoted,$(SUBMAKE) JOBS=$(JOBS)) $(TO) \
		$(call flag,DATA,data) $(call flag,SEEDS,seeds) \
		$(if $(filter command environment,$(origin COLLECTION)),--collection $(COLLECTION))

include lib/collect/data.mk lib/programs/programs.mk lib/runs/setup.mk
