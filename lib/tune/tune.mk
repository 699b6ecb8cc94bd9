# The search of settings, a part of the Makefile, with packages that nothing else needs.

.PHONY: tune

$(READY)-tune: lib/tune/requirements.txt $(READY)
	$(RUN) -m pip install --quiet -r $<
	touch $@

tune: $(MANIFEST) $(OTHERS) | $(LOOPS) $(READY)-tune  ## which settings of COLLECTION and MODEL train best: [TRIALS=200] [FOLDS=1] [SEEDS=3]
	$(RUN) -m lib.tune $(TO) $(TRAIN_FLAGS) $(call flag,FOLDS,folds) $(call flag,TRIALS,trials) \
		$(call flag,SEEDS,seeds) $(call text,ON,on) --jobs $(JOBS)
