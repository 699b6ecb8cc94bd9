# The pipeline. Targets are the files that stages write; a stage depends on its script, on the
# sources it runs, on the variables it reads and on what the stage before wrote.

COLLECTION ?= layout-xla-default
export EXPERIMENT
FOLDS ?= 5
VENV ?= .venv
OUTPUTS ?= outputs
PYTHON ?= python3
KIND ?= layouts
CORES ?= 1
# Folds train side by side, one thread each; the number of jobs never changes a result.
JOBS := $(or $(value JOBS),$(shell nproc))

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.SUFFIXES:

# Values are checked before anything is written, deleted or run. Those of the first kind stand in
# paths, or bare in command lines; those of the second are quoted there.
PLAIN := COLLECTION FOLDS JOBS OUTPUTS DATA VENV ARGS SUBMISSION SEED EPOCHS TTA PARTS KEEP_GOING \
	PARTIAL SPLITS KIND CORES ROUNDS
QUOTED := A B SAMPLE PROGRAMS NETWORKS BASE_URL
quoted = '$(subst ','\'',$(1))'
define newline :=


endef
$(foreach v,MODEL HOPS $(PLAIN) $(QUOTED),\
	$(if $(findstring $(newline),$(value $(v))),$(error $(v): more than one line)))
FIRST_MODELS := tgraph-plus tile
WHOLE_GRAPH_MODELS := tgraph-plus gst pooling partitioning gat
CHOSEN := $(or $(value MODEL),$(if $(filter tile-%,$(value COLLECTION)),tile,tgraph-plus))
RADIUS := $(filter-out 1,$(or $(value HOPS),$(if $(filter $(WHOLE_GRAPH_MODELS),$(CHOSEN)),all)))
WRONG := $(shell sh lib/runs/make.sh check $(call quoted,MODEL=$(CHOSEN)) $(call quoted,HOPS=$(RADIUS)) \
	$(foreach v,$(PLAIN),$(call quoted,$(v)=$(value $(v)))))
$(if $(WRONG),$(error $(WRONG)))

ifeq (,$(findstring j,$(filter-out --%,$(MAKEFLAGS))))
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-print-directory
RUN := $(VENV)/bin/python
# Models of a collection lie side by side; the first of its kind has the plain name. Caches are
# shared where graphs are pruned alike. (lib/settings has the same rules, as `results`, `cache`.)
MODEL_NAME := $(filter-out $(FIRST_MODELS),$(CHOSEN))
NAME := $(COLLECTION)$(if $(MODEL_NAME),@$(MODEL_NAME))
OUT := $(OUTPUTS)/$(NAME)
KEPT := $(if $(RADIUS),-$(RADIUS))
CACHE := $(OUTPUTS)/$(COLLECTION)/cache$(KEPT)
FOLD_NUMBERS := $(shell seq 0 $$(($(FOLDS) - 1)))
MODELS := $(FOLD_NUMBERS:%=$(OUT)/fold_%/metrics.json)
SCORES := $(FOLD_NUMBERS:%=$(OUT)/scores/fold_%.parquet)

# Flags: only what was given on the command line; everything else is the collection's own setting.
flag = $(if $($(1)),--$(2) $($(1)))
text = $(if $(value $(1)),--$(2) $(call quoted,$(value $(1))))
COMMON = --collection $(COLLECTION) --outputs $(OUTPUTS) $(call flag,DATA,data) \
	$(call flag,SEED,seed) $(call flag,HOPS,hops) $(call flag,MODEL,model) $(ARGS)
PREPROCESS_FLAGS = $(COMMON) $(if $(KEEP_GOING),--keep-going)
TRAIN_FLAGS = $(COMMON) $(call flag,EPOCHS,epochs)
INFER_FLAGS = $(COMMON) $(call flag,TTA,permutations)
ENSEMBLE_FLAGS = $(COMMON)
STUDY_FLAGS = $(COMMON) $(call flag,EPOCHS,epochs) $(call flag,PARTS,parts)
# What a cache depends on: other models and settings of theirs use the same one.
CACHE_FLAGS = --collection $(COLLECTION) --outputs $(OUTPUTS) $(call flag,DATA,data) \
	--hops $(or $(RADIUS),1) $(if $(KEEP_GOING),--keep-going)

# What each stage runs, worked out from its imports.
SOURCES := $(shell $(PYTHON) -SE lib/runs/sources.py 01_preprocess.py 02_train.py 03_infer.py \
	04_ensemble.py lib/study/__main__.py)
sources = $(subst :, ,$(patsubst $(1)=%,%,$(filter $(1)=%,$(SOURCES))))

# What stages depend on beside files with one name: the raw files, and variables.
# (Under `make -n`, which must change nothing, no stamp is written.)
ROOTS := $(or $(DATA),data/tpugraphs data/xla-cpu)
MEASUREMENTS := $(wildcard $(ROOTS:%=%/measurements.parquet))
ifneq (,$(filter all preprocess train infer ensemble study $(OUTPUTS)/%,$(MAKECMDGOALS)))
STAMPS := $(shell sh lib/runs/make.sh stamps $(OUTPUTS)/.make \
	$(if $(findstring n,$(firstword -$(MAKEFLAGS))),dry,write) $(COLLECTION) '$(ROOTS)' \
	$(call quoted,$(COLLECTION).preprocess$(KEPT)=$(CACHE_FLAGS)) \
	$(call quoted,$(NAME).train=$(TRAIN_FLAGS)) $(call quoted,$(NAME).infer=$(INFER_FLAGS)) \
	$(call quoted,$(NAME).ensemble=$(ENSEMBLE_FLAGS) $(FOLDS)) \
	$(call quoted,$(NAME).study=$(STUDY_FLAGS) $(FOLDS)))
$(if $(filter error:,$(STAMPS)),$(error $(STAMPS)))
.PHONY: $(filter-out $(OUTPUTS)/%,$(STAMPS))
endif
stamp = $(word $(1),$(STAMPS))

READY := $(VENV)/.ready
NATIVE_READY := $(VENV)/.ready-native
NATIVE := lib/native/__init__.py $(wildcard lib/native/*.cpp lib/native/*.h)
TEST_READY := $(VENV)/.ready-test
# What is measured decides the environment: layouts need JAX, programs TVM.
COLLECT := lib/collect/$(if $(filter programs,$(KIND)),tvm,xla)
COLLECT_VENV := $(VENV)-collect$(if $(filter programs,$(KIND)),-programs)
COLLECT_READY := $(COLLECT_VENV)/.ready

.PHONY: help all everything preprocess train infer ensemble study rank submission score status report \
	compare wandb-sync setup test lint collect download clean

# `## text` after a target is its line; `##@ title` begins a group; `#= text` is about variables.
help:  ## this list
	@if [ -t 1 ] && [ -z "$$NO_COLOR" ]; then b=$$(printf '\033[1m') r=$$(printf '\033[0m'); fi; \
	echo "usage: make TARGET [VARIABLE=value ...]"; \
	echo "start: $${b}make all$$r, then open $(OUT)/report.html"; \
	awk -v b="$$b" -v r="$$r" '/^##@ /{printf "\n%s%s%s\n", b, substr($$0, 5), r} \
		/^[a-z-]+:.*## /{t = $$0; sub(/:.*/, "", t); sub(/.*## /, ""); printf "  %-13s%s\n", t, $$0}' \
		Makefile; \
	printf "\n$${b}variables$$r\n"; \
	sed -n 's/^#= /  /p' Makefile
#= COLLECTION=layout-xla-default    layout-{xla,nlp}-{random,default}, tile-xla
#= FOLDS=5  JOBS=2                  how many folds to train, and how many at a time
#= MODEL=tgraph-plus                tgraph-plus, tgraph (the paper's), gst, pooling, partitioning, gat (layout); tile (docs/models.md)
#= EPOCHS= SEED= TTA= HOPS=         epochs, seed; of layouts permutations at inference, radius of pruning or all
#= DATA=path  OUTPUTS=outputs       where the raw graphs are, where results go
#= EXPERIMENT=name                  what W&B groups runs by (else a fingerprint of the settings)
#= KEEP_GOING=1                     stage 1 leaves bad files out and says so
#= ARGS="--channels 256"            any setting; 02_train.py --collection NAME --help lists them
#= WANDB_MODE=disabled  NO_COLOR=1  no W&B (offline without a key, online with one); no colour

##@ run
all: $(OUT)/submission.csv $(OUT)/metrics.json $(OUT)/report.html  ## all four stages of COLLECTION, ending in its report.html

# A make of its own for each collection: one that fails does not stop the others. (Not $(MAKE)
# itself in the recipe, for then `make -n` would run it.)
SUBMAKE ?= $(MAKE)
everything: $(READY)  ## make all for every collection that has data, and an account of them
	$(RUN) -m lib.submit.everything --make $(call quoted,$(SUBMAKE) JOBS=$(JOBS)) --outputs $(OUTPUTS) \
		$(call flag,DATA,data) $(call flag,MODEL,model)

preprocess: $(CACHE)/manifest.json  ## stage 1: raw graphs to the cache
train: $(MODELS)  ## stage 2: a network for each of the first FOLDS folds
infer: $(SCORES)  ## stage 3: a score parquet a fold
ensemble: all  ## stage 4: blend, submission, metrics, report

$(CACHE)/manifest.json: $(call sources,01_preprocess.py) $(call stamp,1) $(call stamp,2) | $(READY)
	$(RUN) 01_preprocess.py $(PREPROCESS_FLAGS)

$(OUT)/fold_%/metrics.json: $(CACHE)/manifest.json $(call sources,02_train.py) $(call stamp,3) | $(NATIVE_READY)
	$(RUN) 02_train.py $(TRAIN_FLAGS) --fold $* --folds $(FOLDS)

$(OUT)/scores/fold_%.parquet: $(OUT)/fold_%/metrics.json $(call sources,03_infer.py) $(call stamp,4) | $(NATIVE_READY)
	$(RUN) 03_infer.py $(INFER_FLAGS) --fold $*

$(OUT)/submission.csv $(OUT)/metrics.json $(OUT)/report.html &: $(SCORES) $(MEASUREMENTS) $(call sources,04_ensemble.py) $(call stamp,5) | $(READY)
	$(RUN) 04_ensemble.py $(ENSEMBLE_FLAGS) --folds $(FOLDS)

study: $(OUT)/study/study.parquet  ## what permutations, batch, blending and folds buy COLLECTION: [PARTS=3]

$(OUT)/study/study.parquet: $(MODELS) $(MEASUREMENTS) $(call sources,03_infer.py) $(call sources,lib/study/__main__.py) $(call stamp,6) | $(READY)
	$(RUN) -m lib.study $(STUDY_FLAGS) --folds $(FOLDS) --jobs $(JOBS)

rank: | $(NATIVE_READY)  ## rank the configurations of PROGRAM=file: [CANDIDATES=file] [TOP=10]
	@$(RUN) -m lib.infer.rank $(COMMON) $(call flag,CANDIDATES,candidates) $(call flag,TOP,top) $(PROGRAM)

submission: $(READY)  ## merge the collections' submissions: [PARTIAL=1] [SAMPLE=sample_submission.csv]
	$(RUN) -m lib.submit.merge --outputs $(OUTPUTS) $(call flag,DATA,data) \
		$(call text,SAMPLE,sample) $(call flag,MODEL,model) $(if $(PARTIAL),--partial)

score: $(READY)  ## the local leaderboard: [SUBMISSION="a.csv b.csv"], else that of make submission
	$(RUN) -m lib.submit.leaderboard --outputs $(OUTPUTS) $(call flag,DATA,data) $(SUBMISSION)

##@ look
status: | $(READY)  ## what of COLLECTION is built, what is stale and why, scores so far
	@LC_ALL=C $(MAKE) -n --trace all 2>&1 | $(RUN) -m lib.report.status $(OUT) --cache $(CACHE) --folds $(FOLDS) \
		--stamps $(OUTPUTS)/.make --preprocess=$(call quoted,$(CACHE_FLAGS)) \
		--train=$(call quoted,$(TRAIN_FLAGS)) --infer=$(call quoted,$(INFER_FLAGS)) \
		--ensemble=$(call quoted,$(ENSEMBLE_FLAGS) $(FOLDS))

report: | $(READY)  ## write COLLECTION's report.html anew from what is there
	@$(RUN) -m lib.report $(ENSEMBLE_FLAGS)

compare: | $(READY)  ## two experiments side by side: A=outputs/x B=outputs/y [ARGS=--all]
	$(if $(and $(value A),$(value B)),,$(error usage: make compare A=outputs/x B=outputs/y))
	@$(RUN) -m lib.report.compare $(call quoted,$(value A)) $(call quoted,$(value B)) $(ARGS)

wandb-sync: | $(READY)  ## upload the W&B runs of OUTPUTS that were kept offline
	@$(RUN) -m lib.report.sync $(OUTPUTS)

##@ work on tgraph
setup: $(NATIVE_READY)  ## the environment, in VENV (make all and make test do it themselves)

# torch-scatter has no wheel for most machines: it is compiled here, once, one extension a core and
# without tables for debuggers. pip is not quiet about it, to show that it is alive.
$(READY): requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet $$(grep -E '^(setuptools|wheel|ninja|torch|numpy)==' $<)
	@echo 'setup: compiling torch-scatter (some minutes, once)'
	printf '[build_ext]\nparallel = %s\n' $(JOBS) >$(VENV)/build.cfg
	CFLAGS=-g0 DIST_EXTRA_CONFIG="$$(realpath $(VENV))/build.cfg" $(RUN) -m pip install \
		--no-build-isolation --progress-bar off $$(grep '^torch-scatter==' $<)
	$(RUN) -m pip install --quiet --no-build-isolation -r $<
	touch $@

# The loops of lib/native, compiled for this processor. Without a compiler torch alone is used.
$(NATIVE_READY): $(NATIVE) $(READY)
	$(RUN) -c 'from lib import native; native.available()'
	touch $@

$(TEST_READY): tests/requirements.txt $(READY)
	$(RUN) -m pip install --quiet -r $<
	touch $@

# A file's tests share what they set up, so that each file goes to one process.
test: lint  ## lint and all tests, on all cores
	$(RUN) -m pytest -q -n $(JOBS) --dist loadfile

lint: $(TEST_READY) $(NATIVE_READY)  ## ruff check and ruff format --check
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

$(COLLECT_READY): $(COLLECT)/requirements.txt
	$(PYTHON) -m venv $(COLLECT_VENV)
	$(COLLECT_VENV)/bin/python -m pip install --quiet -r $<
	touch $@

##@ data
collect: $(COLLECT_READY) $(READY)  ## measure on this machine: [KIND=programs] [CORES=1] [ROUNDS=24] [PROGRAMS="bert.*"] [NETWORKS="bert*"]
ifeq ($(KIND),programs)
	$(COLLECT_VENV)/bin/python -m lib.collect.tvm --core $(CORES) $(call flag,ROUNDS,rounds) \
		--output $(OUTPUTS)/collect-programs $(call text,NETWORKS,networks) $(ARGS)
	$(RUN) -m lib.collect.tvm.export $(OUTPUTS)/collect-programs $(or $(DATA),$(OUTPUTS)/programs-cpu)
else
	$(COLLECT_VENV)/bin/python -m lib.collect.xla --resume --cores $(CORES) --rounds $(or $(ROUNDS),24) \
		--output $(OUTPUTS)/collect $(call text,PROGRAMS,programs) $(ARGS)
	$(RUN) -m lib.collect.xla.export $(OUTPUTS)/collect $(or $(DATA),$(OUTPUTS)/xla-cpu)
endif

SPLITS ?= train,valid,test
download: $(READY)  ## the official archives of COLLECTION into DATA: [BASE_URL=http://...] [SPLITS=train,valid,test]
	$(RUN) -m lib.download.download --collection $(COLLECTION) --splits $(SPLITS) \
		--to $(or $(DATA),data/tpugraphs) $(call text,BASE_URL,base-url) $(ARGS)

##@ tidy
clean:  ## delete COLLECTION's outputs (with MODEL, only that model's)
	rm -rf $(OUT) $(OUTPUTS)/.make/$(NAME).*
