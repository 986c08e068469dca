"""The git commit of this program, which `run.json` records."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The git commit of this program, or None if it is unknown.

    The environment variable APE_COMMIT comes first; it is meant for copies without a git history. Otherwise it is the
    commit of the program's own checkout, with a "+" if tracked files have changes.
    """
    if told := os.environ.get("APE_COMMIT"):
        return told
    here = Path(__file__).resolve().parents[1]

    def git(*words: str) -> str:
        command = ["git", "-C", str(here), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here.parent:
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
