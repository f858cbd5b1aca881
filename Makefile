# Two commands for users: `make demo` and `make test`. The rest is for people working on Chainrule.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers

.PHONY: demo test check format peers bench clean

demo: $(VENV)/.demo
	$(BIN)/chainrule train

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(VENV)/.test
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m pytest -q tests/architecture

format: $(VENV)/.test
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# `make bench NAME=loop` runs one benchmark; without NAME it lists them.
bench: $(VENV)/.test peers
	$(BIN)/python -m benchmarks $(NAME)

peers: $(PEERS)/.done

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.demo

# torch is pinned: a plain `torch` brings several gigabytes of CUDA packages on most machines.
$(PEERS)/.done: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	@touch $@
