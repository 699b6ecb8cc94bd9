# Where data come from, a part of the Makefile: the official archives, or this machine's clock.

.PHONY: collect download

# What is measured decides the environment: layouts need JAX, programs TVM.
PROGRAMS_VENV := $(VENV)-collect-programs
COLLECT_VENV := $(if $(filter programs,$(KIND)),$(PROGRAMS_VENV),$(VENV)-collect)

$(VENV)-collect/.ready: lib/collect/xla/requirements.txt
$(PROGRAMS_VENV)/.ready: lib/collect/tvm/requirements.txt
$(VENV)-collect/.ready $(PROGRAMS_VENV)/.ready:
	$(call new_venv,$(@D))
	$(@D)/bin/python -m pip install --quiet -r $<
	touch $@

##@ data
collect: $(COLLECT_VENV)/.ready $(READY)  ## measure on this machine: [KIND=programs] [CORES=1] [ROUNDS=24] [PROGRAMS="bert.*"] [NETWORKS="bert*"]
ifeq ($(KIND),programs)
	$(COLLECT_VENV)/bin/python -m lib.collect.tvm --core $(or $(CORES),1) $(call flag,ROUNDS,rounds) \
		--output $(OUTPUTS)/collect-programs $(call text,NETWORKS,networks) $(ARGS)
	$(RUN) -m lib.collect.tvm.export $(OUTPUTS)/collect-programs $(or $(DATA),$(OUTPUTS)/measured-programs)
else
	$(COLLECT_VENV)/bin/python -m lib.collect.xla --resume --cores $(or $(CORES),1) \
		$(call flag,ROUNDS,rounds) --output $(OUTPUTS)/collect $(call text,PROGRAMS,programs) $(ARGS)
	$(RUN) -m lib.collect.xla.export $(OUTPUTS)/collect $(or $(DATA),$(OUTPUTS)/xla-cpu)
endif

download: $(READY)  ## the official archives of COLLECTION into DATA: [BASE_URL=http://...] [SPLITS=train,valid,test]
	$(RUN) -m lib.download.download --collection $(COLLECTION) --splits $(or $(SPLITS),train,valid,test) \
		--to $(or $(DATA),data/tpugraphs) $(call text,BASE_URL,base-url) $(ARGS)
