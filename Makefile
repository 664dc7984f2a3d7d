# make run    the main job on the embedded defaults      make test   the tests
# make lint   ruff and mypy                              make bench  speed as ratios against references
# make learn  the main job's learning curve, and         make parity the fast engine against the real one
#      learn-webshop  the same on WebShop               make results the comparison of docs/results.md
# make crash  a run that is killed again and again        make fuzz   ten times the damaged inputs of the tests
# Each sets up .venv by itself, and again when pyproject.toml or constraints.txt change; what plays against the real ALFWorld
# packages compiles them first (about two minutes, once; needs g++, make and cmake).

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
FULL := $(VENV)/.full
ARGS ?=
# Processes that the tests are shared out to; 0 runs them one by one, as a debugger needs it.
WORKERS ?= 2

# One thread per process: two OpenMP pools that compete for the same cores are several times slower than one.
export OMP_NUM_THREADS ?= 1

.PHONY: run test lint bench learn learn-webshop results parity crash fuzz clean

run: $(READY)
	$(PY) -m creditlab resume=auto $(ARGS)

test: $(FULL)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(FULL)
	$(PY) benchmarks/credit.py
	$(PY) benchmarks/rollout.py
	$(PY) benchmarks/engine.py
	$(PY) benchmarks/webshop.py

# The main job, checked: the held-out success must rise from a warm start that leaves room.
learn: $(READY)
	$(PY) benchmarks/learning.py $(ARGS)

# The same on WebShop, where the graded score must rise as well.
learn-webshop: $(READY)
	$(PY) benchmarks/learning.py --env webshop $(ARGS)

# The comparison of docs/results.md: makes the runs that have no record (hours), and then the report in runs/comparisons/results.
results: $(READY)
	$(PY) -m creditlab.compare suite=results parallel=2 records=docs/results/records $(ARGS)

# Fast and real engine, step by step, on many games of all families.
parity: $(FULL)
	$(PY) tests/environments/parity.py $(ARGS)

# A run of twelve updates that is killed at random moments ends as the undisturbed one does.
crash: $(READY)
	$(PY) tests/crash/campaign.py $(ARGS)

# Damaged configurations, games, rollouts and checkpoints, ten times as many as in the tests.
fuzz: $(READY)
	CREDITLAB_FUZZ_TIMES=10 $(PY) -m pytest tests/fuzz --timeout=3600 $(ARGS)

# torch goes first, so that the constrained build is there before anything else asks for it
$(READY): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt torch
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

$(FULL): $(READY)
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev,alfworld,webshop]'
	touch $(FULL)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
