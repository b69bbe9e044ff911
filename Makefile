# Every target first makes the environment it needs: python3 with pip and a package index are enough.
#   make demo    the agent mends a sample repository; no key, no network
#   make test    the fast suite          make lint    ruff, format, floors, shape
#   make types   mypy and basedpyright   make prove   the long campaigns
#   make bench   numbers beside a floor  make format  rewrite the code as ruff likes it
#   make real    the tests with a small real model (180 MB) and real MCP servers (npm and pip: 110 MB)
#   make lock    resolve the dependencies again (UPGRADE=--upgrade for newer ones)
#   make clean   remove what the other targets made
# Another interpreter: make test PYTHON=python3.13 VENV=.venv-3.13

PYTHON ?= python3
VENV   ?= .venv

python   := $(VENV)/bin/python
ready    := $(VENV)/.ready
locks    := requirements/bootstrap.lock requirements/dev.lock
checked  := src tests tools $(wildcard bench)
resolve  := $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

MAKEFLAGS += --no-print-directory
# Many tests wait: for a process to end, for a limit to pass. Two for a processor keep it busy.
workers := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
npm_servers := $(addprefix @modelcontextprotocol/server-,everything filesystem memory)

# Who forbids bytecode has every process of a suite compile plait and its tests anew: three times the work.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo test lint types prove prove-quick real bench format lock clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(ready)
	@$(VENV)/bin/plait demo

test: $(ready)
	@$(python) -m pytest -n $(workers) --dist worksteal

lint: $(ready)
	@$(python) -m ruff check $(checked)
	@$(python) -m ruff format --check $(checked)
	@$(python) tools/check_floors.py
	@$(python) tools/check_shape.py $(checked)

types: $(ready)
	@$(python) -m mypy
	@$(python) -m basedpyright --pythonpath $(python)

# make prove PART=1/4 SECONDS=600 SEED=7 runs a part of it, for so long, from that seed.
prove: $(ready)
	@$(python) tools/prove.py $(if $(PART),--part $(PART)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

prove-quick: $(ready)
	@$(python) tools/prove.py --quick $(if $(PART),--part $(PART)) $(if $(SEED),--seed $(SEED))

real: $(ready)
	@$(VENV)/bin/uv pip install --quiet --python $(python) "$$($(python) -c 'from plait.cli.demo.local_server import REQUIREMENT; print(REQUIREMENT)')"
	@$(python) -m pytest -m real_model
	@npm install --silent --no-fund --no-audit --prefix $(VENV)/real_mcp $(npm_servers)
	@$(VENV)/bin/uv venv --quiet --allow-existing --python $(python) $(VENV)/real_mcp/venv
	@$(VENV)/bin/uv pip install --quiet --python $(VENV)/real_mcp/venv/bin/python mcp-server-git mcp-server-time
	@REAL_MCP=$(abspath $(VENV)/real_mcp) $(python) -m pytest -m real_mcp tests/real_mcp

bench: $(ready)
	@$(python) -m bench

format: $(ready)
	@$(python) -m ruff check --quiet --fix-only $(checked)
	@$(python) -m ruff format $(checked)

lock: $(ready)
	@$(resolve) $(UPGRADE) pyproject.toml --output-file requirements/runtime.lock
	@$(resolve) $(UPGRADE) pyproject.toml --group dev --constraint requirements/runtime.lock --output-file requirements/dev.lock
	@$(resolve) $(UPGRADE) --group bootstrap --output-file requirements/bootstrap.lock

clean:
	@rm -rf .venv .venv-* dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .prove bench/out
	@find src tests tools $(wildcard bench) -name __pycache__ -prune -exec rm -rf {} +

# The stamp is written last and taken away first: an environment without it is never believed, but made anew.
$(ready): $(python) $(locks) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "plait needs Python 3.11 or newer; say which: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m pip --version >/dev/null || \
	  { echo "$(PYTHON) has no pip; install it (Debian: apt-get install python3-pip)" >&2; exit 1; }
	@test -e $@ || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV); }
	@rm -f $@
	@echo "making $(VENV) as $(locks) say"
	@$(PYTHON) -m pip --python $(python) --disable-pip-version-check install --quiet --require-hashes -r requirements/bootstrap.lock
	@$(VENV)/bin/uv pip sync --quiet --compile-bytecode --python $(python) --require-hashes $(locks)
	@$(VENV)/bin/uv pip install --quiet --python $(python) --no-deps --no-build-isolation --editable .
	@touch $@

# Gone, or its interpreter is: then nothing that the stamp says holds any more.
$(python):
	@rm -f $(ready)
