# Two commands for users: `make demo` and `make test`. The rest is for people working on Chainrule.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p $(NEW_ENOUGH) 2> /dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-all check format peers bench constraints clean

demo: $(VENV)/.demo
	$(BIN)/chainrule train

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal --durations=30

test: $(VENV)/.test
	@echo 'tests    src, tests and README.md with $(BIN)/python, two processes; make test-all adds the slow ones'
	$(PYTEST) -m 'not slow'

test-all: $(VENV)/.test
	@echo 'tests    src, tests and README.md with $(BIN)/python, two processes, the slow ones too'
	$(PYTEST)

check: $(VENV)/.test
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m pytest -q tests/architecture

format: $(VENV)/.test
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# `make bench NAME=loop` runs one benchmark; without NAME it lists them.
bench: $(VENV)/.test peers
	$(BIN)/python -m benchmarks $(NAME)

peers: $(PEERS)/.done

# Resolve the newest versions anew; PYTHONS are the interpreters to ask.
PYTHONS ?= python3.11 python3.12 python3.13
constraints: $(VENV)/.demo
	$(BIN)/python .ci/constraints.py $(PYTHONS)

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build

# A half-made environment would look finished to the next call, so it is removed.
$(VENV)/bin/python:
	@'$(PYTHON)' $(NEW_ENOUGH) || { \
		echo 'Chainrule needs Python 3.11 or newer; say which one with: make PYTHON=/path/to/python' >&2; exit 1; }
	@echo 'python   $(PYTHON) -> $(VENV)'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'Python cannot make a virtual environment (Debian: apt-get install python3-venv)' >&2; exit 1; }

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo 'install  chainrule -> $(VENV)'
	@$(BIN)/python $(PIP) -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo 'install  chainrule and what its tests need -> $(VENV)'
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.demo

# torch is pinned: a plain `torch` brings several gigabytes of CUDA packages on most machines.
$(PEERS)/.done: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) -r benchmarks/peers.txt
	@touch $@
