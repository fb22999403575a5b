# On a machine with Python 3.11-3.13 and make: `make demo` installs into .venv and runs the main job, `make test` the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compilation is most of the time, and one process compiles on one core. A file's tests stay together: they share compiled models.
PARALLEL ?= -n auto --maxprocesses 4 --dist loadfile

.PHONY: demo test slow lint docs bench wheel-test clean

demo: $(VENV)/.installed
	$(BIN)/replica demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow $(PARALLEL) $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	$(BIN)/pyright

# Into build/docs/index.html; a warning is an error.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx -W --keep-going -q docs build/docs

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/run.py

# Builds sdist and wheel, installs the wheel in a clean environment and uses it from another folder.
wheel-test: $(VENV)/.installed-dev
	.ci/run wheel-test

# Keeps .venv and results/.
clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are renewed when pyproject.toml changes; a larger install satisfies the smaller ones.
define install
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(1)'
endef

$(VENV)/.installed: pyproject.toml
	$(call install,)
	touch $@

$(VENV)/.installed-test: pyproject.toml
	$(call install,[test])
	touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml
	$(call install,[dev])
	touch $(VENV)/.installed $(VENV)/.installed-test $@
