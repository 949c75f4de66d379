# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# ROS nodes started from here talk to this machine only.
export ROS_AUTOMATIC_DISCOVERY_RANGE ?= LOCALHOST
# Processes of tests start sooner from compiled modules, which containers are often told not to keep.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo check test nightly lint docs bench clean

help: ## Say what there is to make
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

venv: $(STAMP) ## Create .venv with the package, ROS 2 Jazzy from wheels and the test tools

# Debian's python3 comes without ensurepip unless python3-venv is installed, and its pip installs
# nothing outside of a virtual environment: virtualenv is then unpacked into a folder and run there.
$(STAMP): setup.py package.xml
	@if [ ! -x $(BIN)/pip ]; then
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
	    { echo "make venv: expected Python 3.11 or newer, found $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	  if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then
	    $(PYTHON) -m venv $(VENV)
	  else
	    bootstrap=$$(mktemp -d)
	    trap 'rm -rf "$$bootstrap"' EXIT
	    { $(PYTHON) -m pip install --quiet --target "$$bootstrap" virtualenv &&
	      PYTHONPATH="$$bootstrap" $(PYTHON) -m virtualenv --quiet $(VENV); } ||
	      { echo "make venv: expected python3-venv or pip: apt install python3-venv" >&2; exit 1; }
	  fi
	fi
	echo 'Installing into $(VENV): takes a few minutes the first time'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable '.[ros,test]'
	touch $@

demo: venv ## Simulate, record, calibrate and report, on this machine (SEED=…)
	$(BIN)/python -m sysid_ros.demo --seed $(or $(SEED),1)

# MJCF of real robots: the files inside two wheels, without what the packages themselves need.
ROBOTS := $(VENV)/.robots
$(ROBOTS): $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps mjlab robosuite
	touch $@

PYTEST := $(BIN)/python -m pytest --quiet
PARALLEL := --dist worksteal --numprocesses
# Some tests wait for processes of their own: one worker more than processors fills the time.
WAITING := $(shell echo $$(($$(nproc) + 1)))

# $(call beside,TESTS): lint, and run tests while the types are checked.
define beside
failed=0
types=$$(mktemp)
trap 'rm -f "$$types"' EXIT
$(BIN)/ruff check . || failed=1
$(BIN)/ruff format --check . || failed=1
$(BIN)/mypy >"$$types" 2>&1 & checked=$$!
$(1) || failed=1
wait $$checked || failed=1
cat "$$types"
exit $$failed
endef

check: venv ## Lint, check types and run the quick tests, for daily work
	@$(call beside,$(PYTEST) $(PARALLEL) auto -m 'not slow and not ros and not nightly and not shared')

# Properties are tested with the same examples every time; `make check` looks for others.
test: venv $(ROBOTS) ## Lint, check types and run the tests
	@$(call beside,$(PYTEST) $(PARALLEL) $(WAITING) --hypothesis-profile=ci -m 'not nightly')

nightly: venv $(ROBOTS) ## Build and install the package, open the report in a browser, make the site
	$(PYTEST) --numprocesses $(WAITING) -m nightly

lint: venv ## Lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: venv ## Make a site of the documentation in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo 'Read it: $(BIN)/python -m http.server --directory site'

bench: venv $(ROBOTS) ## Run every benchmark, beside its peer where there is one
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable '.[bench]'
	@for benchmark in benchmarks/*.py; do
	  echo "== $$benchmark"
	  $(BIN)/python "$$benchmark"
	done

clean: ## Remove what was built; the recordings in out/ and demo/ stay
	rm -rf $(VENV) build install log dist site *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
