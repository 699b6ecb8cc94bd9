# Questions about a collection, a part of the Makefile: what stages will take, and what choices buy.

.PHONY: study plan

##@ ask
plan: | $(LOOPS)  ## what the stages of COLLECTION will take here: time, memory, disk
	@$(RUN) -m lib.study.plan $(TRAIN_FLAGS) $(call flag,TTA,permutations) $(call flag,FOLDS,folds) --jobs $(JOBS)

study: $(call here,$(OUT)/study/study.parquet)  ## what permutations, batch, blending and folds buy COLLECTION: [PARTS=3]

# It keeps the scores of each network, and makes those anew that would be others.
$(OUT)/study/study.parquet: $(MANIFEST) $(OTHERS) again | $(READY)-native
	$(RUN) -m lib.study $(TO) $(STUDY_FLAGS) --jobs $(JOBS) \
		$(if $(TGRAPH_TASKS),--through $(call quoted,$(call hand,$(GPUS))))
