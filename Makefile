# Needs python3 (3.11 or newer) and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
APE := $(abspath $(BIN))/ape

ONLY := # names of benchmarks or mutants to run; empty runs all

# Runs as many tests at a time as there are cores, at most 8. An idle worker takes tests from a busy one.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

# It prints what it downloads.
INSTALL := $(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable
SAY_INSTALL := echo 'Installing into $(VENV). PyTorch and the other packages are large, so this takes some minutes.'

.PHONY: install test test-all lint format check-types pytest durations mistakes mutants fuzz kill bench record docs notebooks demo clean

install: $(VENV)/.test

# An installation with one extra of pyproject.toml: `test`, `docs`, or `dev`, which includes the other two.
$(VENV)/.test $(VENV)/.docs $(VENV)/.dev: pyproject.toml constraints.txt
	test -e $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(SAY_INSTALL)
	$(INSTALL) '.[$(@:$(VENV)/.%=%)]'
	touch $@

# Installs only what users of the package need. The installation for development, if there is one, has more.
$(VENV)/.plots: pyproject.toml constraints.txt
	test -e $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(VENV)/.test || { $(SAY_INSTALL); $(INSTALL) '.[plots]'; }
	touch $@

# What a contributor runs before a commit, and what CI runs. It takes under four minutes on 2 cores.
test: lint check-types pytest

# Runs all tests: the quick ones and those in tests/nightly/, which start clusters, servers, browsers and many processes,
# kill them, and damage files. `make test-all SHARD=2/4` runs the second of four parts.
SHARD :=
test-all: $(VENV)/.dev lint check-types
	$(PYTEST) -o norecursedirs= $(if $(SHARD),--splits $(word 2,$(subst /, ,$(SHARD))) \
		--group $(word 1,$(subst /, ,$(SHARD))) --splitting-algorithm least_duration)

lint: install
	@$(BIN)/ruff format --check . || { echo 'Run `make format`, which formats these files.'; exit 1; }
	$(BIN)/ruff check .

format: install
	$(BIN)/ruff format .

check-types: install
	$(BIN)/mypy --num-workers 2

# The tests start many processes, which should not compile each module again.
pytest durations: export PYTHONDONTWRITEBYTECODE :=

pytest: install
	$(PYTEST)

# Prints the 30 slowest tests of `make test`.
durations: install
	$(PYTEST) --durations 30

# Inserts each known mistake into a copy of the code, and checks that its test fails. It takes about seven minutes.
mistakes: $(VENV)/.dev
	$(BIN)/python -m tests.mistakes

# Makes small changes to the modules that pyproject.toml lists under `tool.mutmut`, and prints those that no test notices.
# `make mutants ONLY='ape_cli.structure.trees*'` changes one of these modules. `.venv/bin/mutmut show NAME` prints a
# change. All of them take hours on 2 cores, and one module takes minutes.
mutants: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mutmut run $(ONLY)
	$(BIN)/mutmut results | sed "/caught by type check/d"

# Changes files of six kinds 3,000 times, and checks that each change is refused, or left out and named, or has no
# effect. It takes about a quarter of an hour on 2 cores.
fuzz: $(VENV)/.dev
	APE_FUZZ=500 $(BIN)/python -m pytest -n 2 tests/nightly/test_fuzz.py

# Kills commands 200 times at random moments, on a disk and on an S3 server on loopback, repeats them, and compares their
# files with those of commands that were not killed. It takes about half an hour on 2 cores.
kill: $(VENV)/.dev
	$(BIN)/python -m tests.nightly.kill 200

# Measures speed and memory as ratios, prints a table and writes to benchmarks/results/. `make bench ONLY="start gen"`
# runs only some of the benchmarks. All of them take about three quarters of an hour on 2 cores, which should be idle
# otherwise.
bench: install
	$(BIN)/python -m benchmarks $(ONLY)

# Makes the tables and plots of record from the committed runs, and renders the pages from results/pages/. It trains
# nothing.
record: install
	$(BIN)/python -m results.record

# Writes the generated pages and pictures, and builds the documentation site into site/.
docs: $(VENV)/.docs
	$(BIN)/python -m tools.pages
	$(BIN)/python -m zensical build --strict --clean

# Runs the notebooks in examples/ and stores their outputs in them.
notebooks: $(VENV)/.dev
	$(BIN)/python tools/notebooks.py

# Makes a table and plots from nothing, in a separate folder: two encodings on a task on trees. After the installation, it
# takes about two minutes on 2 cores.
DEMO := demo
demo: $(VENV)/.plots
	mkdir -p $(DEMO)
	cd $(DEMO) && $(APE) sweep --schemes sinusoidal,orthogonal-tree --tasks tree-rotate --preset small
	cd $(DEMO) && $(APE) show tree-rotate-breadth-small --row 4
	cd $(DEMO) && $(APE) report --plots figures
	@echo 'The plots are in $(DEMO)/figures. Open $(DEMO)/figures/scores.svg in a browser.'

clean:
	rm -rf $(VENV) $(DEMO) site mutants .cache .pytest_cache .mypy_cache .ruff_cache
