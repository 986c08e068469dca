"""What to do with a GPU that is there for half an hour: `python -m benchmarks.gpu`.

Three stages, each within its minutes: `check` that results on the GPU are those of a CPU, measure `steps`, and
`record` the paper's tables at the paper's size. Each writes what it has as it goes, and goes on from there when it is
called again. CONTRIBUTING.md has the procedure.
"""
