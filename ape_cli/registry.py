"""The registry of runs: `registry.open("results")` opens one.

`open` is `ape_cli.runs.registry.open_registry`, which documents its arguments and errors.
"""

from ape_cli.runs.registry import Registry, open_registry

open = open_registry

__all__ = ["Registry", "open"]
