# The tables of the papers, a part of the Makefile.

.PHONY: reproduce

# A make of its own for each row, collection and seed, as of `make everything`.
reproduce: $(READY)  ## a paper's table beside ours: [TABLE=tgraph3] [SEEDS=3] [COLLECTION=] [FOLDS=] [EPOCHS=]; without TABLE, which there are
	@$(RUN) -m lib.experiments.reproduce $(TABLE) --make $(call quoted,$(SUBMAKE) JOBS=$(JOBS)) $(TO) \
		$(call flag,DATA,data) $(call flag,SEEDS,seeds) \
		$(if $(filter command environment,$(origin COLLECTION)),--collection $(COLLECTION))
