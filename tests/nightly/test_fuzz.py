"""Files with changed bytes, one kind for each door: nothing changes silently, and nothing ends in a traceback.

A changed file of this program (a manifest, a shard, scores, a history, weights) has the same content, is refused, or is
left out and named. A user's own file (trees, images, a sweep) may have another content. Changes are always the same:
24 of each kind, or as many as APE_FUZZ says (`make fuzz`). None may take 20 seconds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import ape_cli
from ape_cli import experiment
from ape_cli.cli import app
from ape_cli.core.errors import ApeError
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.sharing.exported import export
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.storage import sources
from ape_cli.storage.tree_sources import read_trees
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.trainer import Stopped
from tests.conftest import write
from tests.nightly.limits import MOST_SECONDS
from tests.storage.sources import formats

CHANGES = int(os.environ.get("APE_FUZZ", "24"))
PIECES = [b"", b"\n", b"\0", b"\xff", b"\x1b[2J", b"{", b"]", b"(", b'"', b"<", b"&", b"-1", b"1e999", b"\t"]


def changed(content: bytes, chosen: random.Random) -> bytes:
    """A copy with a flipped bit, or with a part that is replaced, repeated or left out."""
    at, end = sorted(chosen.randrange(len(content)) for _ in range(2))
    match chosen.randrange(4):
        case 0:
            return content[:at] + bytes([content[at] ^ 1 << chosen.randrange(8)]) + content[at + 1 :]
        case 1:
            return content[:at] + chosen.choice(PIECES) * chosen.choice([1, 1, 100]) + content[at + 1 :]
        case 2:
            return content[:end] + content[at:]
        case _:
            return content[:at] + content[end:]


def ape(*words: str) -> tuple[str, str]:
    """Runs a command in this process and returns its stdout and stderr. Raises `ApeError` if it ends with an error."""
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        raise ApeError(result.stderr)
    return result.stdout, result.stderr


def train(where: Path, stop: Callable[[], bool] = lambda: False) -> trial.Trial:
    """Trains a tiny run in `where`/results on the dataset `where`/data, or continues one that was stopped."""
    settings = {"steps": 4, "validate_every_steps": 2, "d_model": 8, "d_ff": 8}
    wanted = ExperimentSpec(preset="tiny", scheme="rope", seed=1, set=settings).config("sequence")
    execution = Execution(torch.device("cpu"), stop=stop)
    setup = experiment.of(wanted, open_dataset(where / "data"))
    registry = open_registry(where / "results")
    return trial.run_trial(setup, registry, execution, existing=ExistingRun.RESUME_OR_START)


def finished(where: Path) -> None:
    write(where / "data", "reverse", rows=(24, 8, 8))
    train(where)


def stopped(where: Path) -> None:
    write(where / "data", "reverse", rows=(24, 8, 8))
    answers = iter([False, False, True])
    with suppress(Stopped):
        train(where, lambda: next(answers))


def exported(where: Path) -> None:
    finished(where)
    export(next(iter(open_registry(where / "results"))), where / "out")


def dataset(where: Path) -> Any:
    """Its rows and what decides runs. Neither the versions, the means nor the overlap do."""
    data = open_dataset(where / "data")
    manifest = data.manifest.model_dump(exclude={"versions", "mean_size", "mean_tokens", "overlap", "overlap_sizes"})
    return manifest, [data.split(name).table().to_pylist() for name in ("train", "validation", "test")]


def report(where: Path) -> Any:
    """The scores by epoch and by size; None if something is left out and named."""
    options = ("--format", "csv", "--results", str(where / "results"))
    views = [ape("report", "--by", by, *options) for by in ("size", "epoch")]
    return None if any("left out" in err for _, err in views) else [out for out, _ in views]


def weights(where: Path) -> Any:
    (run,) = open_registry(where / "results")
    return {name: value.tolist() for name, value in run.load_model().items()}


def loaded(where: Path) -> Any:
    return ape_cli.load(where / "out").predict(["a b c", "d"], max_tokens=4)


@dataclass(frozen=True)
class Door:
    """Where files of a kind are read: `make` writes them, `read` reads them, `pattern` finds those that change."""

    make: Callable[[Path], object]
    pattern: str
    read: Callable[[Path], Any]
    own: bool = False  # whether the file is a user's own, so that any content is possible


def trees(name: str, text: str, times: int = 4) -> Door:
    """A file of trees, with a text that is repeated."""
    return Door(lambda where: (where / name).write_text(text * times), name, lambda where: read_trees(str(where)), True)


def operators(where: Path) -> None:
    write(where / "data", "tree-ops", "breadth", rows=(24, 8, 8))


def tree_texts(where: Path) -> None:
    pq.write_table(pa.table({"text": [json.dumps({"a": [n % 5, "x"]}) for n in range(40)]}), where / "x.parquet")


def images(where: Path) -> None:
    part = formats.part(1, 40)
    names = {"label": formats.AIRPLANES}
    formats.parquet(where / "source" / "train.parquet", "img", formats.pngs(part.pixels), {"label": part.labels}, names)


CONLLU = "# newdoc\n1\tCats\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsit\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
SWEEP = 'preset = "tiny"\nseeds = [1, 2]\ntasks = ["copy"]\n\n[[grid]]\nschemes = ["rope"]\nset = { steps = 5 }\n'
MATH = "<math xmlns='urn:m'><mi a='b'>x</mi><!-- a --><mo>&#x2b;</mo> é</math>"
CODE = "async def g(x):\n    match x:\n        case [1, *_]:\n            return f'{x!r:>3}', lambda q: -q ** 2j\n"
DOORS = {
    "manifest": Door(operators, "manifest.json", dataset),
    "shards": Door(operators, "*.parquet", dataset),
    "scores": Door(finished, "*test-teacher.json", report),
    "history": Door(finished, "history.parquet", report),
    "record": Door(finished, "run.json", report, own=True),
    "weights": Door(finished, "model.safetensors", weights),
    "state": Door(stopped, "state.safetensors", lambda where: train(where) and None, own=True),
    "exported weights": Door(exported, "out/model.safetensors", loaded),
    "exported configuration": Door(exported, "out/config.json", loaded, own=True),
    "images": Door(images, "*.parquet", lambda where: sources.open_source(str(where / "source")), own=True),
    "texts": Door(tree_texts, "*.parquet", lambda where: read_trees(str(where), format="json"), own=True),
    "sweep": Door(
        lambda where: (where / "sweep.toml").write_text(SWEEP),
        "sweep.toml",
        lambda where: ape("sweep", str(where / "sweep.toml"), "--dry-run", "--results", str(where / "results")),
        own=True,
    ),
    "JSON": trees("a.json", '{"a": [1, "x", null]}', 1),
    "JSON lines": trees("a.jsonl", '{"label": "S", "children": [{"label": 1}]}\n'),
    "Python": trees("a.py", CODE),
    "s-expressions": trees("a.mrg", "( (S (NP (DT the) (NN cat)) (: ;)) )\n"),
    "CoNLL-U": trees("a.conllu", CONLLU),
    "XML": trees("a.xml", MATH, 1),
    "HTML": trees("a.html", "<!doctype html><title>a</title><p class=a>one<br>two &nbsp;<ul><li>a</ul>"),
    "JavaScript": trees("a.js", "async function* f(a, {b = 1, ...c}) { return `x${a}é` ?? /r/g; }\n"),
}


@pytest.mark.parametrize("name", DOORS)
def test_no_changed_file_is_silent_or_a_traceback(name: str, tmp_path: Path) -> None:
    door, whole, work = DOORS[name], tmp_path / "whole", tmp_path / "work"
    whole.mkdir()
    door.make(whole)
    shutil.copytree(whole, work)
    before = None if door.own else door.read(work)
    refused = 0
    for number in range(CHANGES):
        shutil.rmtree(work)
        shutil.copytree(whole, work)
        chosen = random.Random(f"{name} {number}")
        path = chosen.choice(sorted(work.rglob(door.pattern)))
        path.write_bytes(changed(path.read_bytes(), chosen))
        start = time.process_time()
        with suppress(ApeError):
            after = door.read(work)
            assert door.own or after in (None, before), f"a silent change: {number}"
            refused -= 1
        refused += 1
        assert time.process_time() - start < MOST_SECONDS
    assert refused or door.own or name in ("scores", "history")
