# What choices buy, a part of the Makefile.

.PHONY: study

##@ ask
study: $(call here,$(OUT)/study/study.parquet)  ## what permutations, batch, blending and folds buy COLLECTION: [PARTS=3]

# It keeps the scores of each network, and makes those anew that would be others.
$(OUT)/study/study.parquet: $(MANIFEST) $(OTHERS) again | $(READY)-native
	$(RUN) -m lib.study $(TO) $(STUDY_FLAGS) --jobs $(JOBS) \
		$(if $(TGRAPH_TASKS),--through $(call quoted,$(call hand,$(GPUS))))
