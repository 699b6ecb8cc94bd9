# Tensor programs, a part of the Makefile: latencies of whole networks, predictors for other devices and
# networks, and fast schedules. TVM's environment makes, draws and measures programs, the other one
# predicts them. Predictors for devices and searches need a package of their own.

.PHONY: latency calibrate search

##@ latencies of networks

ifneq (,$(filter latency,$(MAKECMDGOALS)))
$(if $(value NETWORK),,$(error usage: make latency NETWORK=torchvision:resnet18 BATCH=1 BUDGET=16))
endif
latency: | $(READY) $(READY)-native $(PROGRAMS_VENV)/.ready  ## how long NETWORK=torchvision:resnet18 takes: [BATCH=4] [SHAPE=sequence_length=128] [DEVICE=native] [BUDGET=16] [ARGS=--json]
	@$(RUN) -m lib.programs.latency $(TO) --collection $(COLLECTION) $(call flag,DATA,data) $(call flag,MODEL,model) $(call flag,EXPERIMENT,experiment) \
		--tvm $(PROGRAMS_VENV)/bin/python $(call flag,BUDGET,budget) $(call flag,SHAPE,shape) $(ARGS) -- $(call quoted,$(value NETWORK)) $(or $(BATCH),0) $(or $(DEVICE),native)

$(READY)-calibrate: lib/programs/requirements.txt $(READY)
	$(INSTALL) -r $<
	touch $@

calibrate: | $(READY) $(READY)-native $(READY)-calibrate $(PROGRAMS_VENV)/.ready  ## correct the predictor for this processor by programs measured on it: [METHOD=cmd]
	@+$(MAKE) cached COLLECTION=$(COLLECTION) ARGS= SETTINGS= FOLDS=
	$(RUN) -m lib.programs.calibrate $(TO) --collection $(COLLECTION) $(call flag,DATA,data) $(call flag,MODEL,model) $(call flag,EXPERIMENT,experiment) \
		--tvm $(PROGRAMS_VENV)/bin/python $(call flag,METHOD,method) $(ARGS)

ifneq (,$(filter search,$(MAKECMDGOALS)))
$(if $(value NETWORK),,$(error usage: make search NETWORK=torchvision:resnet18 BUDGET=64))
endif
search: | $(READY) $(READY)-native $(READY)-calibrate $(PROGRAMS_VENV)/.ready  ## a fast library of NETWORK=torchvision:resnet18: [BUDGET=64] [SHAPE=sequence_length=128] [DEVICE=native] [THREADS=1] [SCHEDULES=folder]
	$(RUN) -m lib.programs.search $(TO) --collection $(COLLECTION) $(call flag,DATA,data) $(call flag,MODEL,model) $(call flag,EXPERIMENT,experiment) \
		--tvm $(PROGRAMS_VENV)/bin/python $(call text,NETWORK,network) \
		$(call flag,BUDGET,budget) $(call flag,SHAPE,shape) $(call flag,BATCH,batch) $(call flag,DEVICE,device) $(call flag,THREADS,threads) $(call flag,SEED,seed) $(call flag,SCHEDULES,schedules) $(ARGS)
