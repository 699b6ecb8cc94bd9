# Latencies of whole networks, a part of the Makefile: TVM's environment makes the programs of a
# network, the other one predicts them.

.PHONY: latency

ifneq (,$(filter latency,$(MAKECMDGOALS)))
$(if $(value NETWORK),,$(error usage: make latency NETWORK=resnet18 BATCH=1 DEVICE=avx2))
endif
LATENCY_OF := $(if $(filter programs-%,$(COLLECTION)),$(COLLECTION),programs-cpu)
latency: | $(READY) $(READY)-native $(PROGRAMS_VENV)/.ready  ## how long NETWORK=resnet18 takes: [BATCH=1] [DEVICE=avx2] [ARGS="--json --plot a.svg"], after make all COLLECTION=programs-cpu
	@$(RUN) -m lib.programs.latency $(TO) --collection $(LATENCY_OF) $(call flag,DATA,data) $(call flag,MODEL,model) $(call flag,EXPERIMENT,experiment) \
		--tvm $(PROGRAMS_VENV)/bin/python $(ARGS) -- $(call quoted,$(value NETWORK)) $(or $(BATCH),1) $(or $(DEVICE),avx2)
