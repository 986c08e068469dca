"""The command line. Each command parses its options, calls one stage of the pipeline and prints the result.

Results go to stdout, progress and notes to stderr. Exit statuses: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
torch is imported only inside of commands, so that `ape --help` is fast.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

from ape_cli.cli import completion, console
from ape_cli.cli._app import app
from ape_cli.core.errors import ApeError

# Each of these modules registers its commands.
_WORK = ("gen", "train", "sweep", "evaluate", "report", "draw")
_OTHER = ("lists", "check", "runs", "show", "doctor", "share", "new")
for stage in completion.needed(_WORK + _OTHER):
    import_module(f"{__name__}.{stage}")


def main() -> None:
    """Run the command line, and end the process."""
    sys.stdin, sys.stdout, sys.stderr = (
        _stream(number, stream) for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr))
    )
    code = _code()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:  # the disk is full, or the reader of a pipe has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # Python flushes again when it ends
            code = code or _shown(error)
    sys.exit(code)


def _stream(number: int, stream: Any) -> Any:
    """The standard stream of a number. One that is closed is empty, and loses what is written to it."""
    if stream is None:
        opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: `number`, if those below are open
        return os.fdopen(opened, "w" if number else "r")
    if number and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode
        if isinstance(stream.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: what a full disk does not take would be lost
            whole = io.BufferedWriter(stream.buffer)
            return io.TextIOWrapper(whole, stream.encoding, "backslashreplace", line_buffering=True)
    return stream


def _code() -> str | int | None:
    """Run the command line, and return the argument of `sys.exit`."""
    try:
        app()
    except SystemExit as end:
        return end.code
    except (ApeError, OSError) as error:  # not from within a command: of `--help`, for example
        return _shown(error)
    except Exception:  # a bug: its traceback may contain addresses
        console.print_note_lines(traceback.format_exc().rstrip())
        return 1
    return 0


def _shown(error: ApeError | OSError) -> int:
    """Print an error if that is possible, and return the exit status."""
    with suppress(OSError):
        return console.print_error(error)
    return 1
