"""The terminal as the command line needs it: open standard streams, and a plausible size in the environment."""

from __future__ import annotations

import os
import re
import sys
from io import TextIOWrapper

from ape_cli.cli.console import note

_SIZE = re.compile("0*[1-9][0-9]{0,3}")


def prepare() -> None:
    """Open the standard streams that are closed, let the others print any text, and check COLUMNS and LINES."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without Unicode shows other characters as numbers
            stream.reconfigure(errors="backslashreplace")
    for name in ("COLUMNS", "LINES"):  # rich reads them as numbers, however long they are
        if (given := os.environ.get(name)) and not _SIZE.fullmatch(given):
            del os.environ[name]
            note(f"{name} is ignored: it is no number from 1 to 9999")


def _open_streams() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise the next file that is opened gets the number of the stream, and what a library or another process prints
    is written into it. A result that cannot be printed is an error, so nothing can be written to such a stdout.
    """
    for number, mode in enumerate((os.O_RDWR, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the system takes the lowest free number
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def flush() -> OSError | None:
    """Write everything that was printed. Returns the first error, and then drops what could not be written.

    Python itself flushes the streams again when it ends, and would print a traceback.
    """
    found = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            found = found or error
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
    return found
