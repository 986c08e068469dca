"""The registry of runs: `registry.open("results")` opens a results folder.

`runs` returns a `polars.DataFrame` with one row for each run. An empty folder gives an empty table:

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
