# Everything runs in .venv, which the first target that needs it makes. PYTHON=python3.12 make ... chooses another.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test test-all lint types format clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/python -m pytest -n auto --dist loadgroup

test-all: lint types
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "slow or not slow"

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch first and alone: whatever depends on it then finds it there and does not choose another build
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
