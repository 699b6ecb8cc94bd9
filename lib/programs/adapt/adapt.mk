# Predictors for other devices and networks, a part of the Makefile, with a package of their own.

.PHONY: adapt

ifneq (,$(filter adapt,$(MAKECMDGOALS)))
$(if $(value DEVICE)$(value NETWORK),,$(error usage: make adapt COLLECTION=programs-cpu DEVICE=avx512 TASKS=30, or NETWORK='bert.*'))
endif
$(READY)-adapt: lib/programs/adapt/requirements.txt $(READY)
	$(INSTALL) -r $<
	touch $@

adapt: $(MANIFEST) | $(READY) $(READY)-native $(READY)-adapt  ## latencies on a DEVICE from few tasks: [TASKS=30] [SOURCES=sse2,avx2]; or of networks: NETWORK='bert.*'
	$(RUN) -m lib.programs.adapt $(TO) $(FLAGS) $(call flag,EPOCHS,epochs) $(call flag,TASKS,tasks) $(call flag,SOURCES,sources) \
		$(if $(value NETWORK),$(call text,NETWORK,network),$(call flag,DEVICE,target))
