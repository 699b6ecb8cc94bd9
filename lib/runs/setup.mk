# Environments and tests, a part of the Makefile.

##@ work on tgraph
setup: $(READY)-native  ## the environment, in VENV (make all and make test do it themselves)

# torch-scatter has no wheel for most machines: it is compiled here, once, one extension a core and
# without tables for debuggers. pip is not quiet about it, to show that it is alive.
$(READY): requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet $$(grep -E '^(setuptools|wheel|ninja|torch|numpy)==' $<)
	@echo 'setup: compiling torch-scatter (some minutes, once)'
	printf '[build_ext]\nparallel = %s\n' $(JOBS) >$(VENV)/build.cfg
	CFLAGS=-g0 DIST_EXTRA_CONFIG="$$(realpath $(VENV))/build.cfg" $(RUN) -m pip install \
		--no-build-isolation --progress-bar off $$(grep '^torch-scatter==' $<)
	$(RUN) -m pip install --quiet --no-build-isolation -r $<
	touch $@

# The loops of lib/native, compiled for this processor. Without a compiler torch alone is used.
$(READY)-native: lib/native/__init__.py $(wildcard lib/native/*.cpp lib/native/*.h) $(READY)
	$(RUN) -c 'from lib import native; native.available()'
	touch $@

$(READY)-test: tests/requirements.txt lib/tune/requirements.txt lib/adapt/requirements.txt $(READY)
	$(RUN) -m pip install --quiet -r $<
	touch $@

# (Which tests go to one process, tests/conftest.py says.)
test: lint  ## lint and all tests, on all cores
	$(RUN) -m pytest -q -n $(JOBS) --dist loadgroup --no-loadscope-reorder

lint: $(READY)-test $(READY)-native  ## ruff check and ruff format --check
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
