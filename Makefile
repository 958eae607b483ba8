# Two commands: `make demo` and `make test`. Each creates .venv and installs the project into it if needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test figures fast lint install clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/odevit demo

# the figures of the README and a page of all of them, figures/index.html, from a shipped model
figures: $(STAMP)
	$(BIN)/odevit figures checkpoints/odevit_digits --out figures --images 64 --gallery --dpi 110 --force

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

fast: lint
	$(BIN)/pytest -m "not slow"

clean:
	rm -rf $(VENV) build dist *.egg-info
