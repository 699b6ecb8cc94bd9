# Questions about a collection, a part of the Makefile: what stages will take, and what choices buy.

.PHONY: study plan

##@ ask
plan: | $(LOOPS)  ## what the stages of COLLECTION will take here: time, memory, disk
	@$(RUN) -m lib.study.plan $(TRAIN_FLAGS) $(call flag,TTA,permutations) $(call flag,FOLDS,folds) --jobs $(JOBS)

study: $(MANIFEST) $(OTHERS) | $(LOOPS)  ## what blending and folds buy COLLECTION: [PARTS=3]
	$(RUN) -m lib.study $(TO) $(TRAIN_FLAGS) --folds $(FOLD_COUNT) $(call flag,PARTS,parts) --jobs $(JOBS)
