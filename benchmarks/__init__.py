"""Benchmarks of speed and memory. `make bench` runs them all.

A figure is a ratio of two things that are measured in turn in one run. Each benchmark is a file, found by its name,
and runs in a process of its own. It has a `SUMMARY` of one line and a function `measure()`, which yields a `Row` for
each figure as soon as it is known. The rows are stored in `results/`, in one JSON file for each kind of machine.
`maintainers/benchmarks.md` records what was predicted, tried and found.
"""
