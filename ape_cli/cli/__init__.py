"""The command line. Each command parses its options, calls one stage of the pipeline and prints the result.

Results go to stdout, progress and notes to stderr. Exit statuses: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
torch is imported only inside of commands, so that `ape --help` is fast.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from ape_cli.cli import console
from ape_cli.cli._app import app
from ape_cli.core.errors import ApeError

# Each of these modules registers its commands.
_WORK = ("gen", "show", "train", "sweep", "evaluate", "report", "draw")
_OTHER = ("lists", "check", "new", "runs", "doctor", "share")
for stage in _WORK + _OTHER:
    import_module(f"{__name__}.{stage}")


def main() -> None:
    """Run the command line, and end the process."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # it is closed, and no file that is opened later may take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a terminal without Unicode
    code: str | int | None = 0
    try:
        app()
    except SystemExit as end:
        code = end.code
    except (ApeError, OSError) as error:  # not from within a command: of `--help`, for example
        code = console.print_error(error)
    except Exception:  # a bug: its traceback may contain addresses
        console.print_note_lines(traceback.format_exc().rstrip())
        code = 1
    try:
        sys.stdout.flush()
    except OSError as error:  # the disk is full, or the reader of a pipe has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again when it ends
        code = code or console.print_error(error)
    sys.exit(code)
