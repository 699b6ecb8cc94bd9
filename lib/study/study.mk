# What stages will take, a part of the Makefile.

.PHONY: plan

##@ ask
plan: | $(LOOPS)  ## what the stages of COLLECTION will take here: time, memory, disk
	@$(RUN) -m lib.study.plan $(TRAIN_FLAGS) $(call flag,TTA,permutations) $(call flag,FOLDS,folds) --jobs $(JOBS)
