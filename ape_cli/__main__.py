"""`python -m ape_cli` is `ape`.

`python -m` puts the current folder first on the Python path, and so does an empty entry of PYTHONPATH, as in
`PYTHONPATH=$PYTHONPATH:/folder`. A file there could then be imported in place of a module of the standard library, or
as a plug-in. Therefore this module takes the current folder off the path. Name a folder in PYTHONPATH to import from
it.

Until the path is clean, it imports only modules that Python itself has imported at that point.
"""

import os
import sys

import ape_cli


def leave_current_folder() -> None:
    """Take the current folder off the path, unless PYTHONPATH names it or this package itself is found through it.

    PYTHONSAFEPATH does the same for the processes that this one starts.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    real, parent = os.path.realpath, os.path.dirname  # pathlib imports a dozen modules
    try:
        here = real(os.getcwd())  # noqa: PTH109
    except OSError:  # it was removed, and nothing can be imported from it
        return
    named = {real(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    if here not in named and here != real(parent(parent(ape_cli.__file__))):
        sys.path[:] = [entry for entry in sys.path if real(entry) != here]
        ape_cli.__path__ = [folder for folder in ape_cli.__path__ if real(parent(folder)) != here]


def main() -> None:
    """The entry point of the console script `ape`.

    Until a command starts and handles signals itself, Ctrl-C ends the process at once: Python may lose a
    `KeyboardInterrupt` during an import.
    """
    if os.name != "posix":
        sys.exit("error: ape runs on Linux and macOS only\n  fix:     on Windows, use the Windows Subsystem for Linux")
    leave_current_folder()
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from ape_cli.cli import main as run

    run()


def _end(number: int, frame: object) -> None:
    """Handle Ctrl-C before a command has started, or after it has ended."""
    os.write(2, b"interrupted: run the same command again to continue\n")
    os._exit(130)


if __name__ == "__main__":  # worker processes import this file too, and do not need the command line
    main()
