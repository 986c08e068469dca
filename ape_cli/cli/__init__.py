"""The command line: parse, call one stage, print. torch is imported inside commands alone.

Results go to stdout, progress and notes to stderr. Exit 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

from importlib import import_module

from ape_cli.cli._app import app

for stage in (
    "gen",
    "train",
    "sweep",
    "evaluate",
    "report",
    "lists",
    "new",
):  # each registers its commands, listed in this order
    import_module(f"{__name__}.{stage}")


def main() -> None:
    """The console script."""
    app()
