# Stages on a cluster, a part of the Makefile: EXECUTOR=ray, slurm or local.
#
# With EXECUTOR this make starts one program and waits for it: lib/cluster runs make again, for the
# same goals, and tells it by TGRAPH_TASKS where the stages' commands are to be handed to it.

.PHONY: handed

CLUSTER := $(VENV)-cluster
HANDED := $(filter all everything reproduce preprocess train infer ensemble,$(MAKECMDGOALS))
# (`make -n` shows what one machine would run.)
HANDING := $(if $(or $(TGRAPH_TASKS),$(DRY)),,$(EXECUTOR))
ifneq (,$(and $(HANDING),$(filter $(OUTPUTS)/%,$(MAKECMDGOALS))))
$(error EXECUTOR=$(EXECUTOR): name what to make by a word such as train, not by a file)
endif

here = $(if $(HANDING),handed,$(1))
# What waits for a command that runs elsewhere. $(1): how many GPUs it can use.
hand = $(PYTHON) -SE lib/cluster/hand.py $(call quoted,$(value TGRAPH_TASKS)) $(or $(CPUS),1) $(or $(1),0)
on = $(if $(TGRAPH_TASKS),@$(hand) $@ )
WORKERS = $(if $(TGRAPH_TASKS),$(or $(CPUS),1),$(JOBS))

$(CLUSTER)/.ready: lib/cluster/requirements.txt
	$(call new_venv,$(CLUSTER))
	$(CLUSTER)/bin/python -m pip install --quiet -r $<
	touch $@

# A number of jobs that was not named is no bound: tasks wait where they are handed to.
handed: $(CLUSTER)/.ready $(LOOPS)
	@$(CLUSTER)/bin/python -m lib.cluster $(EXECUTOR) $(TO) $(call flag,MINUTES,minutes) \
		$(if $(filter command,$(origin JOBS)),--jobs $(JOBS)) \
		--make $(call quoted,$(SUBMAKE) $(if $(findstring k,$(firstword -$(MAKEFLAGS))),-k)) $(HANDED)
