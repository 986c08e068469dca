"""New processes that are forked from one which has imported PyTorch. Each saves more than a second.

Each of them imports `ape_cli` itself, with the PYTHONPATH and the environment that are given. Tests about how an
interpreter starts, or about signals, memory or the terminal, start a real interpreter instead.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

# an optimiser imports `torch._dynamo`, which takes as long as PyTorch itself
_LIBRARIES = ["torch", "torch._dynamo", "pyarrow.parquet", "polars", "pydantic", "rich.console", "rich.table", "typer"]


def run(words: Sequence[str], where: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs `python -m ape_cli` in a folder. The environment has a PYTHONPATH."""
    path = [str(where), *environment["PYTHONPATH"].split(os.pathsep), *_installed()]
    with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as err:
        process = _server().Process(target=_ape, args=(words, where, dict(environment), path, [out.name, err.name]))
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(["ape", *words], process.exitcode, out.read(), err.read())


def _server() -> ForkServerContext:
    """Where processes are forked from."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(_LIBRARIES)
    return server


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


def worker_context(method: str) -> Any:
    """What `multiprocessing.get_context` returns, for processes that are forked and get the environment of this one."""
    assert method == "spawn"
    server = _server()

    def process(target: Callable[..., None], args: tuple[Any, ...]) -> Any:
        """A process that calls a function."""
        return server.Process(target=_with, args=(dict(os.environ), target, args))

    return SimpleNamespace(Pipe=server.Pipe, Process=process)


def _with(environment: dict[str, str], target: Callable[..., None], given: tuple[Any, ...]) -> None:
    """Call a function with an environment."""
    os.environ.clear()
    os.environ.update(environment)
    target(*given)
