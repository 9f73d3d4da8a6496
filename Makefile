# Every target makes its own virtual environment; all they need is make and Python 3.11 or newer.
#   make demo    kill an agent half-way through a payment and watch it carry on (core install only)
#   make test    the whole test suite                make check   lint, format, types, house rules
#   make bench   measured numbers                    make docs    the documentation, into site/
#   make soak    the long sweeps, with their seeds   (make soak SOAK="failovers --seed 7": one of them)
#   make lab     every experiment again, into docs/lab.md

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench soak lab docs clean

help:
	@sed -n 's/^#   //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "perdure needs Python 3.11 or newer: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp for what the demo needs and one for everything; the second includes the first.
$(VENV)/core.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(VENV)/core.stamp $@

demo: $(VENV)/core.stamp
	@$(BIN)/perdure demo

# tests/conftest.py keeps those apart that must not run beside one another.
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(WORKERS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house -q

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

SOAK ?=
soak: $(VENV)/dev.stamp
	$(BIN)/python -m soak $(SOAK)

lab: $(VENV)/dev.stamp
	$(BIN)/perdure lab report --into docs

docs: $(VENV)/dev.stamp
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache
