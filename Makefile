# Two commands: `make demo` and `make test`. Each creates .venv and installs the project into it if needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test fast lint install clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/odevit demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

fast: lint
	$(BIN)/pytest -m "not slow"

clean:
	rm -rf $(VENV) build dist *.egg-info
