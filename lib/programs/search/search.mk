# Searching fast schedules, a part of the Makefile: TVM's environment draws and measures them, the
# other one predicts.

.PHONY: search

ifneq (,$(filter search,$(MAKECMDGOALS)))
$(if $(value NETWORK)$(value TASK),,$(error usage: make search NETWORK=resnet18 BUDGET=64 DEVICE=avx2, or TASK=hash))
endif
search: | $(READY) $(READY)-native $(READY)-adapt $(PROGRAMS_VENV)/.ready  ## fast schedules of NETWORK=resnet18 or TASK=hash: [BUDGET=64] [DEVICE=avx2], after make all COLLECTION=programs-cpu
	$(RUN) -m lib.programs.search $(TO) --collection $(LATENCY_OF) $(call flag,DATA,data) $(call flag,MODEL,model) $(call flag,EXPERIMENT,experiment) \
		--tvm $(PROGRAMS_VENV)/bin/python $(call text,NETWORK,network) $(call flag,TASK,task) \
		$(call flag,BUDGET,budget) $(call flag,BATCH,batch) $(call flag,DEVICE,device) $(call flag,SEED,seed) $(ARGS)
