# Needs python3 (3.11 or newer) and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
APE := $(abspath $(BIN))/ape

.PHONY: install test lint check-types pytest quick mistakes fuzz kill bench record docs notebooks demo clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# Installs only what users of the package need. The installation for development, if there is one, has more.
$(VENV)/.plots: pyproject.toml constraints.txt
	test -e $(VENV)/.installed || $(PYTHON) -m venv $(VENV)
	test -e $(VENV)/.installed || $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plots]'
	touch $@

test: lint check-types pytest

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types: install
	$(BIN)/mypy

# Runs three tests at a time, because some of them wait for other processes, in the order of tests/conftest.py. The tests
# of a file stay together, because they share datasets and runs.
pytest: install
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Runs all tests except the slow ones, in two to five minutes. It is meant for use during development.
quick: install
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

# Inserts each known mistake into a copy of the code, and checks that its test fails.
mistakes: install
	$(BIN)/python -m tests.mistakes

# Changes files of every kind 10,000 times, and checks that each change is refused, or left out and named, or has no
# effect. It takes about a quarter of an hour on 2 cores. `python -m tests.fuzz 500 --case runs --seed 7` does a part of it.
fuzz: install
	$(BIN)/python -m tests.fuzz 10000

# Kills commands 200 times at random moments, on a disk and on an S3 server on loopback, repeats them, and compares their
# files with those of commands that were not killed. It takes about half an hour on 2 cores.
kill: install
	$(BIN)/python -m tests.kill 200

# Measures speed and memory as ratios, prints a table and writes to benchmarks/results/. `make bench ONLY="start gen"`
# runs only some of the benchmarks. All of them take about three quarters of an hour on 2 cores, which should be idle
# otherwise.
ONLY :=
bench: install
	$(BIN)/python -m benchmarks $(ONLY)

# Makes the tables and plots of record and the tables in results/README.md from the committed runs. It trains nothing.
record: install
	$(BIN)/python results/record.py

# Builds the documentation site into site/, after it has written the reference pages and drawn the gallery.
docs: install
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/gallery.py
	$(BIN)/zensical build --strict --clean

# Runs the notebooks in examples/ and stores their outputs in them.
notebooks: install
	$(BIN)/python tools/notebooks.py

# Makes a table and plots from nothing, in a separate folder: two encodings on a task on trees. After the installation, it
# takes about three minutes on 2 cores.
DEMO := demo
demo: $(VENV)/.plots
	mkdir -p $(DEMO)
	cd $(DEMO) && $(APE) sweep --schemes sinusoidal,orthogonal-tree --tasks tree-rotate --preset small
	cd $(DEMO) && $(APE) show tree-rotate-breadth-small --row 4
	cd $(DEMO) && $(APE) report --against paper --plots figures
	@echo 'The plots are in $(DEMO)/figures. Open $(DEMO)/figures/scores.svg in a browser.'

clean:
	rm -rf $(VENV) $(DEMO) site .cache .pytest_cache .mypy_cache .ruff_cache
