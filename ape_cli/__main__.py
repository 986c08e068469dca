"""`python -m ape_cli` is `ape`.

`python -m` puts the current folder first on the Python path, so that a file there could be imported in place of a
module of the standard library, or as a plug-in. The console script `ape` does not do so, and neither does this module:
it takes the folder off the path. Name a folder in PYTHONPATH to import from it.
"""

import os
import signal
import sys
from pathlib import Path

import ape_cli


def leave_current_folder() -> None:
    """Take the current folder off the path, unless PYTHONPATH names it or this package itself is found through it."""
    here = Path.cwd()
    named = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    own = Path(ape_cli.__file__).resolve().parents[1]
    if sys.flags.safe_path or here in named or here == own or not sys.path or Path(sys.path[0]).resolve() != here:
        return
    del sys.path[0]
    ape_cli.__path__ = [folder for folder in ape_cli.__path__ if Path(folder).resolve().parent != here]


def main() -> None:
    """The entry point of the console script `ape`.

    Until a command starts and handles signals itself, Ctrl-C ends the process at once: Python may lose a
    `KeyboardInterrupt` during an import.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from ape_cli.cli import main as run

    run()


def _end(number: int, frame: object) -> None:
    """Handle Ctrl-C before a command has started."""
    os.write(2, b"interrupted: run the same command again to continue\n")
    os._exit(130)


if __name__ == "__main__":  # worker processes import this file too, and do not need the command line
    leave_current_folder()
    main()
