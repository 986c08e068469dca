"""The registry of runs: `registry.open("results")` opens one.

`open` is `ape_cli.runs.registry.open_registry`, which documents its arguments and errors. `runs` returns a
`polars.DataFrame` with one line for each run; a folder without runs has none:

    >>> import tempfile
    >>> from ape_cli import registry
    >>> with tempfile.TemporaryDirectory() as results:
    ...     runs = registry.open(results).runs()
    >>> runs.height, runs.columns[:5]
    (0, ['run', 'task', 'order', 'scheme', 'variant'])
"""

from ape_cli.runs.registry import Registry, open_registry

open = open_registry

__all__ = ["Registry", "open"]
