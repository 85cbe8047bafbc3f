# The environment is .venv, made with python -m venv and pip from the exact versions in constraints.txt.
# A stamp file remembers each installation: it is repeated only when pyproject.toml or constraints.txt change.
# Another interpreter: make PYTHON=/path/to/python3.12 demo

VENV := .venv
BIN := $(VENV)/bin
QUIETLY := --disable-pip-version-check --quiet
PIP_INSTALL := $(BIN)/python -m pip install $(QUIETLY) --constraint constraints.txt
WORKERS ?= auto
# One thread of NumPy's linear algebra for each worker: threads of two workers on two cores wait for each other, and
# a run took 51 s instead of 5. Bytecode is kept, also where the environment forbids it: without it, all tests are
# compiled anew by each worker, and the package by each command under test.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=8 --dist=worksteal

# The packages of the bridges want an older pandas and Matplotlib: they have an environment and a file of their own.
EXTRAS := test cluster benchmark ultranest ray gcs azure s3 http docs
LOCK = $(VENV)/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --upgrade \
	--custom-compile-command "make lock"

EXAMPLES ?= $(wildcard gallery/*.py)
# What the pages of the gallery link to: each script, and a notebook of it that was not run.
DOWNLOADS := $(patsubst gallery/%.py,docs/gallery/downloads/%.ipynb,$(wildcard gallery/*.py))

.PHONY: help demo test test-slow test-reference test-experiments test-cluster test-services test-bridges test-gallery test-in-turn test-package test-oldest lint format docs docs-serve gallery benchmark lock clean distclean
.DELETE_ON_ERROR:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/installed ## Estimate the evidence of three models on a million simulated rows
	$(BIN)/evidentia demo

test: lint ## Lint and run the quick tests: all but those of the next six
	$(PYTEST) -m "not network and not slow and not reference and not experiments and not cluster and not services and not gallery"

test-slow: $(VENV)/installed-test ## Run the tests that take some seconds each: ten minutes more
	$(PYTEST) -m "slow and not reference and not experiments and not cluster and not services and not gallery"

test-reference: $(VENV)/installed-test ## Run the tests of the reference estimators and the slowest ones: 15 minutes more
	$(PYTEST) -m "reference"

test-experiments: $(VENV)/installed-test ## Run the tests of the papers' experiments: two minutes more
	$(PYTEST) -m "experiments"

# A file on one worker: each worker that has a test of an engine runs all that was tried on it.
test-cluster: $(VENV)/installed-cluster ## Run the tests that start Dask, Ray and an S3 server on this machine: four minutes
	$(PYTEST) --dist=loadfile -m "cluster"

test-services: $(VENV)/installed-services ## Run the tests that start brokers, the service and a browser on this machine: ten minutes
	$(PYTEST) -m "services"

test-bridges: $(VENV)/bridges/installed ## Run the tests of bilby, Bambi and anesthetic, in an environment of their own: two minutes
	$(VENV)/bridges/bin/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=2 -m "bridges"

test-gallery: $(VENV)/installed-test ## Run the examples of the gallery: a minute each; those whose data are absent are skipped
	$(PYTEST) -m "gallery"

SHARE ?= 0/6

test-in-turn: $(VENV)/installed-test ## Run a share of the reference tests and the gallery, as CI does each day; SHARE=3/6 for another
	$(PYTEST) -m "reference or gallery" --share=$(SHARE)

test-package: $(VENV)/installed-test ## Build the wheel and use it in an empty environment; needs a package registry
	$(BIN)/python -m pytest -m "network"

test-oldest: $(VENV)/bin/python ## Run the tests with the oldest versions that pyproject.toml allows
	$(BIN)/python -m venv --clear $(VENV)/oldest
	$(VENV)/oldest/bin/python -m pip install $(QUIETLY) uv
	$(VENV)/oldest/bin/uv pip compile --quiet --no-config --resolution lowest-direct --extra test --python $(VENV)/oldest/bin/python \
		--output-file $(VENV)/oldest/constraints.txt pyproject.toml
	$(VENV)/oldest/bin/python -m pip install $(QUIETLY) --constraint $(VENV)/oldest/constraints.txt --editable '.[test]'
	$(VENV)/oldest/bin/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=8 --dist=worksteal -m "not gallery"

lint: $(VENV)/installed-test ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --project pyright-strict.toml & strict=$$!; $(BIN)/pyright; basic=$$?; wait $$strict && exit $$basic

format: $(VENV)/installed-test ## Sort imports and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/installed-benchmark ## Measure speed and accuracy beside peers (minutes)
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/installed-docs $(DOWNLOADS) ## Build the site into site/
	$(BIN)/zensical build --clean --strict

docs-serve: $(VENV)/installed-docs $(DOWNLOADS) ## Build the site and show it at localhost:8000
	$(BIN)/zensical serve

docs/gallery/downloads/%.ipynb: gallery/%.py $(VENV)/installed-docs
	@mkdir -p $(@D)
	$(BIN)/jupytext --quiet --to notebook --output $@ $<
	cp $< $(@D)

gallery: $(VENV)/installed-docs ## Run the gallery's scripts anew and write their pages; EXAMPLES=gallery/noise_model.py for one of them
	@mkdir -p .cache/gallery
	@set -e; for script in $(EXAMPLES); do \
		name=$$(basename $$script .py); \
		echo "Running $$script"; \
		$(BIN)/jupytext --quiet --to notebook --output .cache/gallery/$$name.ipynb $$script; \
		MPLBACKEND= PYTHONWARNINGS="ignore:IProgress not found" \
			$(BIN)/jupyter execute --inplace --startup_timeout=300 .cache/gallery/$$name.ipynb; \
		rm -f docs/gallery/images/$${name}_*.png; \
		$(BIN)/jupyter nbconvert --log-level WARN --to markdown --template page --CoalesceStreamsPreprocessor.enabled=True \
			--TemplateExporter.extra_template_basedirs=gallery --NbConvertApp.output_files_dir=images \
			--output-dir docs/gallery .cache/gallery/$$name.ipynb; \
	done

lock: $(VENV)/bin/python ## Write constraints.txt anew from what the registry has now
	$(BIN)/python -m venv --clear $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install $(QUIETLY) uv
	$(LOCK) $(EXTRAS:%=--extra %) --output-file constraints.txt pyproject.toml
	$(LOCK) --extra bridges --output-file constraints-bridges.txt pyproject.toml
	rm -rf $(VENV)/lock

clean: ## Remove caches and built files; keep .venv and results
	rm -rf dist build site docs/gallery/downloads .pytest_cache .ruff_cache .hypothesis .cache .jax_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv too
	rm -rf $(VENV)

$(VENV)/bin/python:
	@found=""; \
	for candidate in $(PYTHON) python3 python3.13 python3.12 python3.14 python3.11 python; do \
		if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			found=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "evidentia needs Python 3.11 or newer, and none was found on the PATH." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version)"; \
	$$found -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "Could not make $(VENV): on Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing evidentia (about a minute the first time)"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/bridges/installed: $(VENV)/bin/python pyproject.toml constraints-bridges.txt
	@echo "Installing evidentia with its bridges into $(VENV)/bridges (about two minutes the first time)"
	@$(BIN)/python -m venv $(VENV)/bridges
	@$(VENV)/bridges/bin/python -m pip install $(QUIETLY) --constraint constraints-bridges.txt --editable '.[bridges]'
	@touch $@

$(VENV)/installed-%: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing evidentia with the extra '$*' (about a minute the first time)"
	@$(PIP_INSTALL) --editable '.[$*]'
	@touch $@ $(VENV)/installed
