"""The command line. Each command parses its options, calls one stage of the pipeline and prints the result.

Results go to stdout, progress and notes to stderr. Exit statuses: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
torch is imported only inside of commands, so that `ape --help` is fast.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper

from ape_cli.cli import completion, console
from ape_cli.cli._app import app
from ape_cli.core.errors import ApeError

# Each of these modules registers its commands. `ape --help` lists them in this order.
_WORK = ("gen", "train", "sweep", "evaluate", "report", "draw")
_OTHER = ("lists", "check", "runs", "show", "fields", "doctor", "share", "new")
for stage in completion.needed(_WORK + _OTHER):
    import_module(f"{__name__}.{stage}")


def main() -> None:
    """Run the command line, and end the process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it is closed
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode
    code = _code()
    try:
        sys.stdout.flush()
    except OSError as error:  # the disk is full, or the reader of a pipe has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again when it ends
        code = code or _shown(error)
    sys.exit(code)


def _code() -> str | int | None:
    """Run the command line, and return the argument of `sys.exit`."""
    try:
        app()
    except SystemExit as end:
        return end.code
    except (ApeError, OSError) as error:  # not from within a command: of `--help`, for example
        return _shown(error)
    except Exception:  # a bug: its traceback may contain addresses
        console.note_lines(traceback.format_exc().rstrip())
        return 1
    return 0


def _shown(error: ApeError | OSError) -> int:
    """Print an error if that is possible, and return the exit status."""
    with suppress(OSError):
        return console.tell(error)
    return 1
