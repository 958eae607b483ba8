# Two commands: `make demo` and `make test`. Each creates .venv and installs the project into it if needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

DATA ?= cifar10

.PHONY: demo test figures figures-pair fast lint install clean

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

# the figures of the shipped pair of teacher and student; DATA is CIFAR-10 as torchvision keeps it, or an .npz
figures-pair: $(STAMP)
	$(BIN)/odevit figures checkpoints/odevit_distilled_cifar10 --teacher checkpoints/vit_teacher_cifar10 --data $(DATA) \
	  --out figures/pair --images 64 --dpi 110 --force

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

fast: lint
	$(BIN)/pytest -m "not slow"

clean:
	rm -rf $(VENV) build dist *.egg-info
