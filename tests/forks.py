"""Runs `ape` as a new process that is forked from one which has imported PyTorch, and so saves a second.

The process imports `ape_cli` itself, with the PYTHONPATH and the environment that are given. Tests about how an
interpreter starts, or about signals, memory or the terminal, start a real interpreter instead.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

_LIBRARIES = ["torch", "pyarrow.parquet", "polars", "pydantic", "rich.console", "rich.table", "typer"]


def run(words: Sequence[str], where: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs `python -m ape_cli` in a folder. The environment has a PYTHONPATH."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LIBRARIES)
    path = [str(where), *environment["PYTHONPATH"].split(os.pathsep), *_installed()]
    with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as err:
        process = context.Process(target=_ape, args=(words, where, dict(environment), path, [out.name, err.name]))
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(["ape", *words], process.exitcode, out.read(), err.read())


def _installed() -> list[str]:
    """The folders of `sys.path` that belong to the interpreter."""
    return [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]


def _ape(words: Sequence[str], where: Path, environment: dict[str, str], path: list[str], files: list[str]) -> None:
    """The command in the new process. `files` are those of its output and of its messages."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(where)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:], sys.argv = path, ["ape", *words]
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY), number)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("ape_cli", "tests")]:
        del sys.modules[name]  # so that it is imported from this path
    runpy.run_module("ape_cli", run_name="__main__", alter_sys=True)
