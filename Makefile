# The same verbs for people and for CI. `make run` and `make test` are all a fresh clone needs.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# A first look must not touch the reader's own state.
DEMO   := $(VENV)/demo
# Models for tests and benchmarks, pulled before any of them runs: those run without a network.
MODELS := $(VENV)/models
PULLED := $(MODELS)/.pulled

.PHONY: run test test-slow lint bench docs clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

run: $(STAMP)
	VADE_HOME=$(DEMO) $(BIN)/vade models pull || echo "Going on without a model: search by words."
	VADE_HOME=$(DEMO) $(BIN)/vade --as-owner sources add obsidian examples/vault --name "Example vault"
	VADE_HOME=$(DEMO) $(BIN)/vade --as-owner recall "why did we drop redis"

$(PULLED): $(STAMP)
	VADE_HOME=$(MODELS) $(BIN)/vade models pull bge-small-en-v1.5
	VADE_HOME=$(MODELS) $(BIN)/vade models pull ms-marco-minilm-l12
	touch $@

test: $(STAMP) $(PULLED)
	VADE_TEST_MODELS=$(CURDIR)/$(MODELS)/models $(BIN)/python -m pytest -m "not slow"

test-slow: $(STAMP) $(PULLED)
	VADE_TEST_MODELS=$(CURDIR)/$(MODELS)/models $(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(STAMP) $(PULLED)
	VADE_TEST_MODELS=$(CURDIR)/$(MODELS)/models $(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
