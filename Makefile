# Two commands do everything: `make run` and `make test`. Both set up their own environment in .venv first.

UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
BIN := .venv/bin
WORKSHOP := $(wildcard workshop/*/pyproject.toml)
ARGS ?=

.PHONY: run test lint types layers compiled tests explore test-guest test-cluster coverage bench console docs dist image clean help

help:
	@echo "make run            koord at work on this machine (ARGS='--report out.html'; LOCAL=1, as root: this machine is a node, too)"
	@echo "make test           lint, types, import rules and tests"
	@echo "make lint types layers tests   one of them (tests: T='-k quantity'; STRICT=1: no second try)"
	@echo "make explore        random search with the property tests for SECONDS=60 (T=tests/scheduler; SEED=17 repeats a failure)"
	@echo "make test-guest     the agent on a kernel with cgroup v2, in a guest: minutes, since it is emulated"
	@echo "make test-cluster   the story of an installation on both API servers, with components killed in the middle: minutes"
	@echo "make coverage       the tests again, slower, and which lines they did not run"
	@echo "make bench          the benchmarks (ARGS=informer)"
	@echo "make console        the console's pages from their sources in console/; needs npm"
	@echo "make docs           the pages as a site with search, in build/docs: open build/docs/index.html"
	@echo "make dist           wheel, source distribution, wheels of what it needs, and SBOM, in dist/"
	@echo "make image          a container image, from Debian's packages and dist/; needs root, buildah and mmdebstrap"
	@echo "make clean          remove what was set up"

.tools/bin/uv:
	python3 -m pip install --quiet --disable-pip-version-check --target .tools uv

# --inexact: what the other target installed stays.
.venv/.run: pyproject.toml uv.lock $(WORKSHOP) | $(filter .tools/%,$(UV))
	$(UV) sync --quiet --frozen --inexact --no-dev --extra speed --extra up --extra bench --extra chaos
	@touch $@

.venv/.dev: pyproject.toml uv.lock $(WORKSHOP) | $(filter .tools/%,$(UV))
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
	$(BIN)/python -m tools.prose
	$(BIN)/python -m tools.names

types: .venv/.dev
	$(BIN)/mypy

layers: .venv/.dev
	$(BIN)/lint-imports
	$(BIN)/python -m tools.maps
	$(BIN)/python -m tools.layers --check docs/architecture/imports.md
	$(BIN)/python -m tools.reference --check

# Files go whole to the workers, in the order that tests/distribution.py gives them. There are more workers than cores,
# since much of a test that talks to a server is waiting.
T ?=
WORKERS ?= 3
PYTEST := pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(if $(STRICT),--one-try)

# Compiled modules are kept whatever the surroundings say, and made once beforehand: each worker, and each of the hundreds
# of processes that the tests start, would compile the same again.
compiled tests coverage: export PYTHONDONTWRITEBYTECODE =

compiled: .venv/.dev
	@found=$$($(BIN)/python -m pytest --collect-only -qq) || { echo "$$found"; exit 1; }

tests: .venv/.dev
	$(BIN)/python -m $(PYTEST) -m "not guest and not long" $(T)

SECONDS ?= 60
SEED ?=
explore: .venv/.dev
	@nice $(BIN)/python -m tests.explore --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(T)

test-guest: .venv/.dev
	$(BIN)/python -m pytest -m guest tests/guest $(T)

test-cluster: .venv/.dev
	$(BIN)/python -m pytest -m "long or not long" -o log_cli=true -o log_cli_level=INFO tests/cluster $(T)

coverage: .venv/.dev
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m $(PYTEST) -m "not long" $(T)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report | tail -n 60

bench: .venv/.dev
	$(BIN)/koord bench $(ARGS)

console: .venv/.dev
	$(BIN)/python -m tools.console_types
	cd console && npm ci --silent && npm run build

docs: .venv/.dev
	$(BIN)/python -m tools.site build/docs

# What the lock file names, for the Python of the image: wheels only, each with the digest that the lock file has.
PLATFORMS = --platform manylinux_2_28_$(1) --platform manylinux_2_17_$(1) --platform manylinux2014_$(1)
dist: .venv/.dev
	rm -rf dist && mkdir -p dist
	$(UV) build --quiet --all-packages --out-dir dist
	$(UV) export --quiet --frozen --no-dev --all-extras --no-emit-workspace -o dist/requirements.txt
	$(UV) export --quiet --frozen --no-dev --all-extras --preview-features sbom-export --format cyclonedx1.5 -o dist/koord.cdx.json
	python3 -m pip download --quiet --no-deps --require-hashes --only-binary :all: --python-version 3.11 --implementation cp \
		$(call PLATFORMS,x86_64) --dest dist/wheels -r dist/requirements.txt
	cp dist/*.whl dist/wheels
	$(UV) pip install --quiet --dry-run --python-version 3.11 --python-platform aarch64-manylinux_2_28 --only-binary :all: \
		--require-hashes --target dist/aarch64 -r dist/requirements.txt && rm -rf dist/aarch64
	$(BIN)/python -m pytest -q -m long tests/artifacts

image: dist
	tools/image.sh

clean:
	rm -rf build dist .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
