"""`python -m ape_cli` is `ape`.

`python -m` puts the current folder first on the Python path, so that a file there could be imported in place of a
module of the standard library, or as a plug-in. The console script `ape` does not do so, and neither does this module:
it takes the folder off the path. Name a folder in PYTHONPATH to import from it.
"""

import os
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


if __name__ == "__main__":  # worker processes import this file too, and do not need the command line
    leave_current_folder()
    from ape_cli.cli import main

    main()
