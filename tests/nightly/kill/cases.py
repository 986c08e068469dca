"""The commands that are killed: what they need, and what they leave."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ape_cli.storage.files import is_temporary
from tests.interpreters import STORING, started

_TIMES = {"started", "finished", "seconds", "tokens_per_second"}  # they differ between two equal runs
_ADDRESSES = {"path"}  # where the dataset of a run is
_DIGESTS = {"sha256", "files"}  # of files with times

_GEN = ["gen", "reverse", "--n", "3000", "--n-validation", "30", "--n-test", "30", "--shard-rows", "150"]
_GEN += ["--length-mean", "5", "--length-std", "1"]
_SETTINGS = ["--preset", "tiny", "--set", "validate_every_steps=2", "--device", "cpu"]


def files(folder: Path) -> dict[str, bytes]:
    """The content of all files in a folder, without times, addresses and temporary files, which stay for an hour."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not is_temporary(path.name)]
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return {name: _timeless(name, data) for name, data in contents.items() if not name.startswith("tmp/")}


def _timeless(name: str, content: bytes) -> bytes:
    """The content of a file without what differs between two equal runs."""
    if name.endswith("history.parquet"):
        return pl.read_parquet(io.BytesIO(content)).drop("seconds").write_csv().encode()
    if name.endswith(".json") and "runs/" in name:
        return json.dumps(_without(json.loads(content), _TIMES | _ADDRESSES | _DIGESTS)).encode()
    return content


def _without(value: Any, names: set[str]) -> Any:
    """A JSON value without the fields of these names."""
    if isinstance(value, dict):
        return {key: _without(entry, names) for key, entry in value.items() if key not in names}
    return value


def start(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """Starts a command in a session of its own, with its own folder for temporary files."""
    own = folder / "tmp"
    own.mkdir(exist_ok=True)
    launch = ("-c", STORING) if words[0] == "train" else ("-m", "ape_cli")
    return started(*launch, *words, where=folder, TMPDIR=str(own), OMP_NUM_THREADS="1", APE_COMMIT="0" * 40)


@dataclass(frozen=True)
class Case:
    """A command that is killed.

    `needs` names the inputs that are copied to its folder before, and `words` makes the command for a folder. `again`
    are words that are added when the command is repeated.
    """

    words: Callable[[Path], list[str]]
    needs: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


def _train(at: Path) -> list[str]:
    words = ["train", "--scheme", "rope", *_SETTINGS, "--set", "steps=20"]
    return [*words, "--data", f"{at / 'words'}", "--results", f"{at / 'results'}"]


def _sweep(at: Path) -> list[str]:
    words = ["sweep", "--schemes", "rope,none", *_SETTINGS, "--set", "steps=10", "--workers", "1", "--threads", "1"]
    return [*words, "--data", f"{at / 'words'}", "--results", f"{at / 'results'}"]


CASES = {
    "gen": Case(lambda at: [*_GEN, "--out", f"{at / 'words'}"]),
    "train": Case(_train, needs=("words",), again=("--resume",)),
    "eval": Case(
        lambda at: ["eval", "--split", "validation", "--data", f"{at / 'words'}", "--results", f"{at / 'results'}"],
        needs=("words", "results"),
    ),
    "report": Case(
        lambda at: f"report --results {at / 'results'} --out {at / 'all.md'} --plots {at / 'plots'}".split(),
        needs=("results",),
    ),
    "sweep": Case(_sweep, needs=("words",)),
}


def prepare(folder: Path) -> None:
    """Generates the dataset, and trains two runs, which the commands need."""
    for words in ([*_GEN, "--out", f"{folder / 'words'}"], _sweep(folder)):
        process = start(words, folder)
        _, err = process.communicate()
        assert process.returncode == 0, err
