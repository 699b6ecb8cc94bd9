# Where data come from, a part of the Makefile: the official archives, or this machine's clock.

.PHONY: collect

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

# An archive a split, unpacked to a temporary folder, and moved to its place whole. (train comes
# last: a root that has it counts as downloaded.)
COMMA := ,
ORIGIN := $(call quoted,$(or $(value BASE_URL),http://download.tensorflow.org/data/tpu_graphs/v0))
ROOT := $(or $(DATA),data/tpugraphs)
DOWNLOADED := $(addprefix $(ROOT)/npz/$(subst -,/,$(COLLECTION))/,$(or $(subst $(COMMA), ,$(SPLITS)),test valid train))
ifneq (,$(filter download,$(MAKECMDGOALS)))
$(if $(filter programs-%,$(COLLECTION)),$(error COLLECTION=$(COLLECTION): there is no archive of it; make collect KIND=programs measures it))
$(if $(filter-out train valid test,$(notdir $(DOWNLOADED))),$(error SPLITS=$(SPLITS): must be some of train,valid,test))
$(if $(shell command -v curl && command -v tar),,$(error make download needs curl and tar; fetch the archives otherwise and unpack them in $(ROOT)))
endif
download: $(DOWNLOADED)  ## the official archives of COLLECTION into DATA: [SPLITS=train,valid,test] [BASE_URL=http://...]
$(filter %/train,$(DOWNLOADED)): | $(filter-out %/train,$(DOWNLOADED))
TAR = $(ROOT)/.partial-$(subst -,_,npz-$(COLLECTION)-$(@F)).tar
$(DOWNLOADED):
	curl -fL -C - --retry 6 --create-dirs -o $(TAR) $(ORIGIN)/$(patsubst .partial-%,%,$(notdir $(TAR))) || \
		{ echo >&2 'error: $(TAR): not whole; start again, or unpack one fetched otherwise in $(ROOT)'; exit 2; }
	@rm -rf $(TAR:.tar=) && mkdir -p $(TAR:.tar=) $(@D)
	tar -xof $(TAR) -C $(TAR:.tar=) || { echo >&2 'error: $(TAR): if it is damaged, delete it and start again'; exit 2; }
	@mv $(TAR:.tar=)/$(@:$(ROOT)/%=%) $@ && rm -r $(TAR) $(TAR:.tar=)
