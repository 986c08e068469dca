"""The command line. Each command parses its options, calls one stage of the pipeline and prints the result.

Results go to stdout, progress and notes to stderr. Exit statuses: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
torch is imported only inside of commands, so that `ape --help` is fast.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from io import TextIOWrapper

from ape_cli.cli import console
from ape_cli.cli._app import app

# Each of these modules registers its commands. `ape --help` lists them in this order.
for stage in ("gen", "train", "sweep", "evaluate", "report", "lists", "verify", "new"):
    import_module(f"{__name__}.{stage}")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without Unicode shows other characters as numbers
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:  # a bug: its traceback may contain addresses
        console.note_lines(traceback.format_exc().rstrip())
        sys.exit(1)
