# Every target sets itself up: needs only python3 with pip/venv, and make. `make demo` and `make test` are the two to know.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS := .cache/models
JOBS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export ASC_TEST_MODELS ?= $(CURDIR)/$(MODELS)

.PHONY: help demo test conformance lint bench models docs browser clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.base
	$(BIN)/python -m pip install -q -e ".[test,lint]"
	@touch $@

$(MODELS)/.done: tests/real_models.csv tests/foreign_models.csv $(VENV)/.base
	@mkdir -p $(MODELS)
	tail -q -n +2 tests/real_models.csv tests/foreign_models.csv | cut -d, -f2 | sort -u > $(MODELS)/packages.txt
	$(BIN)/python -m pip install -q --no-deps --no-compile --upgrade --target $(MODELS) -r $(MODELS)/packages.txt
	@touch $@

models: $(MODELS)/.done  ## Fetch the real models the tests run on (from their PyPI packages)

demo: $(VENV)/.base  ## Check the embedded example and write asc_out/report.html
	$(BIN)/asc check

browser:  ## Install what the browser and netron tests need (Debian; as root)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v node >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq chromium chromium-driver nodejs >/dev/null; }

test: $(VENV)/.dev $(MODELS)/.done browser  ## Run the tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not conformance"

conformance: $(VENV)/.dev $(MODELS)/.done  ## Run the long corpora
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m conformance

lint: $(VENV)/.dev  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.base  ## Regenerate the reference pages from the code
	$(BIN)/python scripts/generate_docs.py

clean:
	rm -rf $(VENV) .cache asc_out .pytest_cache .mypy_cache .ruff_cache
