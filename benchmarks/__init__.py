"""Speed and memory, as ratios of two things measured in turn in one run; `make bench` starts them all.

One file per benchmark, found by its name: `SUMMARY`, a line, and `measure()`, which yields a `Row` for each
figure as soon as it is known. Each runs in a process of its own. The rows are kept in `results/`, one JSON
file per kind of machine; `NOTES.md` says what was predicted, tried and found.
"""
