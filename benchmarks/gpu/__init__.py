"""How to use a GPU that is available for half an hour: `python -m benchmarks.gpu`.

There are three stages, each with a time limit. `check` compares results on the GPU with those of a CPU. `steps`
measures training steps. `record` trains the paper's tables at the paper's size. Each stage writes its results as soon
as they are known, and resumes from them when it is called again. maintainers/gpu.md describes the procedure.
"""
