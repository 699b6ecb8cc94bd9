# Environments, tests and tidying up, a part of the Makefile.

##@ work on tgraph
setup: $(LOOPS)  ## the environment, in VENV (make all and make test do it themselves)

# (A VENV that is a link is followed: Python does not.) A recent pip resolves in half the time of
# Python's own. Of packages only what is imported becomes bytecode, a fifth of it.
new_venv = $(call quoted,$(PYTHON)) -m venv --without-pip "$$(realpath -m $(1))" && \
	{ $(call quoted,$(PYTHON)) -m pip --python $(1)/bin/python install --quiet --no-compile \
	$$(grep '^pip==' requirements.txt) || $(1)/bin/python -m ensurepip; }
INSTALL = $(RUN) -m pip install --quiet --no-compile

# First what torch needs, so that torch and the other packages can go side by side: none of them
# brings one that another brings. The loops of lib/native are compiled as soon as torch is there. At
# the same time what folds import becomes bytecode: else the first two would each spend 15 seconds.
# (Secondary: where the whole environment is there, nobody asks for its parts.)
.SECONDARY: $(READY)-first $(READY)-torch $(READY)-packages $(READY)-bytecode
$(READY)-first: requirements.txt
	@echo 'setup: installing the packages of $< (a minute, once)'
	$(call new_venv,$(VENV))
	$(INSTALL) filelock fsspec networkx sympy typing-extensions $$(grep -E '^(setuptools|wheel|ninja|numpy|jinja2)==' $<)
	touch $@

$(READY)-torch: requirements.txt $(READY)-first
	$(INSTALL) $$(grep '^torch==' $<)
	touch $@

$(READY)-packages: requirements.txt $(READY)-first
	$(INSTALL) $$(grep -Ev '^(#|pip==|torch==|torch-scatter==)' $<)
	touch $@

$(READY): $(READY)-torch $(READY)-packages
	touch $@

$(READY)-bytecode: $(READY)
	$(RUN) -c 'import torch._dynamo, scipy.stats, wandb, polars'
	touch $@

# The loops of lib/native, compiled for this processor. Without a compiler torch alone is used.
$(READY)-native: lib/native/__init__.py $(wildcard lib/native/*.cpp lib/native/*.h) $(READY)-torch
	$(RUN) -c 'from lib import native; native.available()'
	touch $@

# torch-scatter has no wheel for most machines, and is compiled for minutes: one extension a core,
# without tables for debuggers. Where that fails, the networks do without.
$(READY)-scatter: requirements.txt | $(READY)
	@echo 'setup: compiling torch-scatter (some minutes, once)'
	printf '[build_ext]\nparallel = %s\n' $(JOBS) >$(VENV)/build.cfg
	CFLAGS=-g0 DIST_EXTRA_CONFIG="$$(realpath $(VENV))/build.cfg" $(INSTALL) --no-build-isolation \
		$$(grep '^torch-scatter==' $<) >$(VENV)/torch-scatter.log 2>&1 || echo >&2 'warning:' \
		'torch-scatter was not compiled ($(VENV)/torch-scatter.log says why); torch alone adds up,' \
		'the same sums more slowly. To try again: rm $@'
	touch $@

$(READY)-tune: lib/tune/requirements.txt $(READY)
	$(INSTALL) -r $<
	touch $@

$(READY)-test: tests/requirements.txt lib/tune/requirements.txt lib/programs/requirements.txt $(READY)
	$(RUN) -m pip install --quiet -r $<
	touch $@

# (Which tests go to one process, tests/conftest.py says.)
RUFF = $(RUN) -m ruff check . && $(RUN) -m ruff format --check .
test: $(READY)-test $(READY)-native  ## ruff and all tests, on all cores
	$(RUFF)
	$(RUN) -m pytest -q -n $(JOBS) --no-loadscope-reorder

lint: $(READY)-test $(READY)-native  ## ruff check, ruff format --check and mypy
	$(RUFF)
	$(RUN) -m mypy

clean:  ## list and delete the results of COLLECTION, MODEL and EXPERIMENT; CONFIRM=1 if weights were trained
	@$(ASK).clean $(OUT) $(if $(CONFIRM),--confirm)
