# Two commands do everything: `make run` and `make test`. Both set up their own environment in .venv first.

UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
BIN := .venv/bin
ARGS ?=

.PHONY: run test lint types layers compiled tests explore test-guest coverage bench clean help

help:
	@echo "make run            koord at work on this machine (ARGS='--report out.html'; LOCAL=1, as root: this machine is a node, too)"
	@echo "make test           lint, types, import rules and tests"
	@echo "make lint types layers tests   one of them (tests: T='-k quantity')"
	@echo "make explore        random search with the property tests for SECONDS=60 (T=tests/scheduler; SEED=17 repeats a failure)"
	@echo "make test-guest     the agent on a kernel with cgroup v2, in a guest: minutes, since it is emulated"
	@echo "make coverage       the tests again, slower, and which lines they did not run"
	@echo "make bench          the benchmarks (ARGS=informer)"
	@echo "make clean          remove what was set up"

.tools/bin/uv:
	python3 -m pip install --quiet --disable-pip-version-check --target .tools uv

# --inexact: what the other target installed stays.
.venv/.run: pyproject.toml uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --quiet --frozen --inexact --no-dev --extra speed
	@touch $@

.venv/.dev: pyproject.toml uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --quiet --frozen --all-extras
	@touch $@ .venv/.run

run: .venv/.run
	@# Ctrl-C is how it is meant to end.
	@trap : INT; $(BIN)/koord up --demo $(if $(LOCAL),--local-node) $(ARGS) || [ $$? -eq 130 ]

test: .venv/.dev
	$(MAKE) --no-print-directory -j2 lint layers types compiled
	$(MAKE) --no-print-directory tests

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

layers: .venv/.dev
	$(BIN)/lint-imports

# Files go whole to the workers, in the order that tests/distribution.py gives them. There are more workers than cores,
# since much of a test that talks to a server is waiting.
T ?=
WORKERS ?= 3
PYTEST := pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Compiled modules are kept whatever the surroundings say, and made once beforehand: each worker, and each of the hundreds
# of processes that the tests start, would compile the same again.
compiled tests coverage: export PYTHONDONTWRITEBYTECODE =

compiled: .venv/.dev
	@found=$$($(BIN)/python -m pytest --collect-only -qq) || { echo "$$found"; exit 1; }

tests: .venv/.dev
	$(BIN)/python -m $(PYTEST) -m "not guest" $(T)

SECONDS ?= 60
SEED ?=
explore: .venv/.dev
	@nice $(BIN)/python -m tests.explore --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(T)

test-guest: .venv/.dev
	$(BIN)/python -m pytest -m guest tests/guest $(T)

coverage: .venv/.dev
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m $(PYTEST) $(T)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report | tail -n 60

bench: .venv/.dev
	$(BIN)/koord bench $(ARGS)

clean:
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
