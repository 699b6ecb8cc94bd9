# Questions about a collection, a part of the Makefile: what stages will take, and what choices buy.

.PHONY: study plan

##@ ask
plan: | $(READY)-native  ## what the stages of COLLECTION will take here: time, memory, disk
	@$(RUN) -m lib.forecast $(TRAIN_FLAGS) $(call flag,TTA,permutations) $(call flag,FOLDS,folds) --jobs $(JOBS)

study: $(call here,$(OUT)/study/study.parquet)  ## what permutations, batch, blending and folds buy COLLECTION: [PARTS=3]

$(OUT)/study/study.parquet: $(MODELS) $(MEASUREMENTS) $(call planned,03_infer.py) $(call planned,lib/study/__main__.py) $(call stamp,6) | $(READY)
	$(RUN) -m lib.study $(TO) $(STUDY_FLAGS) --jobs $(JOBS) \
		$(if $(TGRAPH_TASKS),--through $(call quoted,$(call hand,$(GPUS))))
