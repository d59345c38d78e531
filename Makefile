# Every target makes what it needs: .venv, then the extra of pyproject.toml that it names.
# An extra is installed once and again when pyproject.toml changes; a second run starts at once.

# The first Python on the PATH that is new enough. `make PYTHON=/some/python3.12 test` takes another.
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
LAB_ARGS ?=
DEMO := build/demo.html

# Kernels and settings of this environment come before those of the user.
export JUPYTER_PREFER_ENV_PATH := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test demo lint format generate new-pass docs browser fuzz guard peers targets notebooks binder lite install-check release clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# -------------------------------------------------------------------------------- environment

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "xlanb needs Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# .venv/.installed-test: the package as it stands here, with the extra `test`.
$(VENV)/.installed-%: pyproject.toml $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# ----------------------------------------------------------------------------------- use it

# A screen is there when a display is named, or on a Mac; a CI machine has none.
HAS_SCREEN := $(if $(CI),,$(or $(DISPLAY),$(WAYLAND_DISPLAY),$(filter Darwin,$(shell uname))))

lab: $(VENV)/.installed-lab ## JupyterLab on the tutorials (without a screen: its address)
	$(BIN)/python -m jupyterlab --ServerApp.root_dir=notebooks \
		$(if $(HAS_SCREEN),,--no-browser) \
		$(if $(filter 0,$(shell id -u)),--allow-root) \
		$(LAB_ARGS)

# The tutorial writes its stepper to the file that XLANB_DEMO_HTML names.
demo: $(VENV)/.installed-test ## run the first tutorial, leave its stepper as one page in build/demo.html
	@mkdir -p $(dir $(DEMO)) && rm -f $(DEMO)
	XLANB_DEMO_HTML=$(CURDIR)/$(DEMO) $(BIN)/jupyter-execute notebooks/01-*.ipynb
	@test -s $(DEMO) || { echo "the tutorial ran, but left no $(DEMO)" >&2; exit 1; }
	@echo "open $(DEMO) in any browser"

# ---------------------------------------------------------------------------------- check it

test: $(VENV)/.installed-test ## all tests but the slow ones and those that need a browser or the real XLA
	$(BIN)/python -m pytest -m "not browser and not peer and not slow and not target" -n auto --maxprocesses=4 $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev ## style, spelling, types, allowed imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/repo-review . --show err

format: $(VENV)/.installed-dev ## format the code, repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(VENV)/.installed-dev ## the pages of docs/reference that are made from the tables
	$(BIN)/python docs/generate.py

FOLDER ?= simplifiers

new-pass: $(VENV)/.installed-test ## the files of a new pass: NAME=double-negation FOLDER=simplifiers
	$(BIN)/python -m tests.transforms.new_pass $(NAME) --folder $(FOLDER)

# A warning is an error: a link that leads nowhere, a name that is no more.
docs: $(VENV)/.installed-dev ## the documentation, as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html in any browser"

# What is asked for by name must run: here a skipped test is a failure.
browser: $(VENV)/.installed-browser ## tests in a real JupyterLab (needs chromium on the PATH)
	$(BIN)/python -m pytest tests/browser --fail-on-skip $(PYTEST_ARGS)

peers: $(VENV)/.installed-peers ## tests against the real XLA (installs JAX and TensorFlow)
	$(BIN)/python -m pytest tests/peers -m "not target" --fail-on-skip $(PYTEST_ARGS)

# JAX's plugins for GPUs and TPUs are heard at each of its imports: they have an environment of their own.
TARGETS := .venv-targets

$(TARGETS)/.installed: pyproject.toml $(VENV)/.made
	$(PYTHON) -m venv $(TARGETS)
	$(TARGETS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,gpu,tpu]'
	@touch $@

targets: $(TARGETS)/.installed ## the real XLA for GPUs and TPUs that are not here (installs 1.2 GB: JAX's plugins, ptxas, libtpu)
	JAX_PLATFORMS=cpu $(TARGETS)/bin/python -m pytest tests/targets tests/peers/test_cuda_tools.py tests/notebooks \
		$(if $(XLANB_OTHER_PYTHON),,--ignore=tests/targets/test_two_versions.py) \
		-m target --fail-on-skip $(PYTEST_ARGS)

notebooks: $(VENV)/.installed-peers ## run every tutorial and its solutions, the real XLA beside them (installs JAX and TensorFlow)
	$(BIN)/python -m pytest tests/notebooks -m "not target" --fail-on-skip $(PYTEST_ARGS)

# Prints its seed; the same seed makes the same inputs. Finds are in build/fuzz.
MINUTES ?= 30
JOBS ?= 2
SEED ?=
KINDS ?=

fuzz: $(VENV)/.installed-test ## hostile and random inputs, for MINUTES=30, from SEED= (new each time)
	XLANB_CACHE_DIR= $(BIN)/python -m tests.fuzz --minutes $(MINUTES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(KINDS)

# Other modules to check: files of HLO text or JSON lines, folders. Finds are in build/guard.
PATHS ?=

guard: $(VENV)/.installed-test ## programs between pages that nobody may touch, for MINUTES=30, from SEED=, and those of PATHS=
	$(BIN)/python -m tests.fuzz.guard --minutes $(MINUTES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(PATHS)

binder: ## what Binder builds, in a fresh environment, and every tutorial in it, without TensorFlow
	PYTHON=$(PYTHON) binder/check.sh

# JupyterLite has versions of its own of JupyterLab's packages: an environment of its own too. Needs npm and node.
LITE := .venv-lite

$(LITE)/.installed: lite/requirements.txt $(VENV)/.made
	$(PYTHON) -m venv $(LITE)
	$(LITE)/bin/python -m pip install --quiet --disable-pip-version-check -r lite/requirements.txt
	@touch $@

lite: $(LITE)/.installed $(VENV)/.installed-browser ## lessons 01 to 04 as a static site in build/lite/site, run in Chromium
	$(LITE)/bin/python lite/build.py build/lite
	$(BIN)/python -m pytest tests/lite --fail-on-skip $(PYTEST_ARGS)

# As a user installs it: a wheel, in an environment of its own, far from the sources.
install-check: ## `pip install .` into a fresh environment
	@test -n "$(PYTHON)" || { echo "xlanb needs Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 1; }
	rm -rf build/install-check && $(PYTHON) -m venv build/install-check
	build/install-check/bin/python -m pip install --quiet --disable-pip-version-check .
	cd build/install-check && bin/python -m xlanb --help >/dev/null && bin/xlanb --help >/dev/null
	@cd build/install-check && bin/python -c \
		'import pathlib, xlanb; print("installed:", xlanb.__version__, pathlib.Path(xlanb.__file__).parent)'
	@set -e; for f in $$(git ls-files 'xlanb/*' | sed 's,^xlanb/,,'); do \
		test -e build/install-check/lib/python3*/site-packages/xlanb/$$f \
			|| { echo "not in the wheel: xlanb/$$f" >&2; exit 1; }; done

# What is uploaded: whether it can be shown, and whether it stays small.
release: $(VENV)/.installed-dev ## the wheel and the source archive in dist/, checked
	rm -rf dist && $(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	@size=$$(cat dist/*.whl | wc -c); echo "the wheel has $$size bytes"; test $$size -lt 3600000 \
		|| { echo "a wheel is to stay below 3.6 MB" >&2; exit 1; }
	@grep -q "^version: $$($(BIN)/python -c 'import xlanb; print(xlanb.__version__)')$$" CITATION.cff \
		|| { echo "CITATION.cff names another version" >&2; exit 1; }

clean: ## remove the environment and all that was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
