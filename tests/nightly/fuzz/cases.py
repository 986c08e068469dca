"""What is mutated: each case has files, and what users see of them.

What users see is compared with what they see of the unchanged files. Three outcomes are allowed: the same result, a
refusal with a message, and a part that is left out and named. Files that the program did not write (sources of images,
sweeps) have no digest, so any result is allowed there, but no traceback. `trees.py` has the sources of trees.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

from ape_cli import experiment, position, tasks
from ape_cli.cli import app
from ape_cli.core.errors import ApeError
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
from ape_cli.runs import config
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loop import Stopped
from tests.conftest import write
from tests.nightly.limits import peak_of_this
from tests.storage.sources import formats

CPU = torch.device("cpu")
FORBIDDEN = ("\x1b", "\x9b", "\u202e", "\x00")


class BrokenRule(AssertionError):  # noqa: N818 - a finding, not an error of this program
    """A mutation had an outcome that is not allowed."""


def command(*words: str) -> tuple[int, str, str]:
    """Runs a command in this process. Returns its exit status, stdout and stderr.

    Raises `BrokenRule` for a traceback and for control characters in the output.
    """
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise BrokenRule(f"`ape {' '.join(words)}` raised {result.exception!r}") from result.exception
    if any(character in result.stdout + result.stderr for character in FORBIDDEN):
        raise BrokenRule(f"`ape {' '.join(words)}` printed control characters")
    return result.exit_code, result.stdout, result.stderr


class Case(ABC):
    """One kind of files. `folder` has the unchanged files, in `template`; mutated copies are made in it too."""

    written_by_us = True  # whether a change must be noticed
    json = False  # whether the files are JSON
    words: tuple[bytes, ...] = ()  # of the files if they are text: pieces that mutations put anywhere
    roots: tuple[str, ...] = ()  # names of files that earlier versions wrote without a digest, as they then say

    def __init__(self, folder: Path) -> None:
        self.template, self.work = folder / "template", folder / "work"
        self.template.mkdir(parents=True)
        self.make()
        self.reset()
        self.expected, _ = self.seen()
        self.memory = peak_of_this()

    @abstractmethod
    def make(self) -> None:
        """Writes the files into `template`."""

    @abstractmethod
    def files(self) -> Sequence[Path]:
        """The files that are mutated, below `work`."""

    @abstractmethod
    def seen(self) -> tuple[Any, str]:
        """What users see of the files in `work`, and the messages. Raises `ApeError` if it is refused."""

    def reset(self) -> None:
        """Makes `work` a copy of `template`."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.template, self.work)

    def outcome(self, name: str, *, sealed: bool) -> str:
        """The outcome of a mutation of the file `name`: `same`, `refused`, `named` or `new`.

        The last is possible only for files that are not ours, and for values with a new digest (`sealed`).
        """
        try:
            found, messages = self.seen()
        except ApeError as error:
            if not str(error).strip():
                raise BrokenRule("a refusal without a message") from error
            return "refused"
        if found == self.expected:
            return "same"
        if "left out: " in messages or "error: " in messages or ("unverified" in messages and name in self.roots):
            return "named"
        if sealed or not self.written_by_us:
            return "new"
        raise BrokenRule(f"a silent change:\n  before {str(self.expected)[:500]}\n  after  {str(found)[:500]}")


def finished(where: Path, seeds: Sequence[int] = (1,)) -> None:
    """Trains tiny runs in `where`/results on the dataset `where`/data."""
    data = write(where / "data", "reverse", rows=(24, 8, 8))
    for seed in seeds:
        chosen = {"steps": 4, "validate_every_steps": 2, "d_model": 8, "d_ff": 8}
        wanted = config.resolve("tiny", "rope", position.options("rope"), seed=seed, settings=chosen)
        trial.run_trial(experiment.of(wanted, data), open_registry(where / "results"), Execution(CPU))


class Registry(Case):
    """The files of two finished runs, as `ape report`, `ape runs` and `ape verify` show them."""

    json = True
    names: tuple[str, ...] = ("test-teacher.json",)

    def make(self) -> None:
        finished(self.template, (1, 2))

    def files(self) -> Sequence[Path]:
        return [path for path in sorted(self.work.rglob("*")) if path.name.endswith(self.names)]

    def seen(self) -> tuple[Any, str]:
        found, messages = [], []
        here = ("--results", str(self.work / "results"))
        for words in (
            ("report", "--format", "json"),
            ("report", "--by", "size", "--format", "csv"),
            ("report", "--by", "epoch", "--format", "json"),
            ("report", "--format", "markdown"),
            ("runs", "--json"),
        ):
            code, out, err = command(*words, *here)
            found.append((code, out))
            messages.append(err)
        return found, "\n".join(messages)


class Records(Registry):
    """The run.json of two finished runs. Its own bytes have no digest; the name of the run covers the configuration."""

    names = ("run.json",)
    written_by_us = False


class Histories(Registry):
    """The histories of two finished runs."""

    json = False
    names = ("history.parquet",)


class Weights(Case):
    """The weights of a finished run, as they are loaded for an evaluation."""

    def make(self) -> None:
        finished(self.template)

    def files(self) -> Sequence[Path]:
        return sorted(self.work.rglob("model.safetensors"))

    def seen(self) -> tuple[Any, str]:
        (run,) = open_registry(self.work / "results")
        return {name: value.tolist() for name, value in run.load_model().items()}, ""


class State(Case):
    """The state of a stopped run, as a resumed training uses it. It has no digest, and is removed at the end."""

    written_by_us = False

    def make(self) -> None:
        write(self.template / "data", "reverse", rows=(24, 8, 8))
        left = iter([False, False, True])
        with suppress(Stopped):
            self.train(self.template, lambda: next(left), ExistingRun.REFUSE)

    def train(self, where: Path, stop: Any, existing: ExistingRun) -> trial.Trial:
        chosen = {"steps": 4, "validate_every_steps": 2, "d_model": 8, "d_ff": 8}
        wanted = config.resolve("tiny", "rope", position.options("rope"), seed=1, settings=chosen)
        data, registry = open_dataset(where / "data"), open_registry(where / "results")
        return trial.run_trial(
            experiment.of(wanted, data), registry, Execution(CPU, stop=stop), existing=existing, test=False
        )

    def files(self) -> Sequence[Path]:
        return sorted(self.work.rglob("state.safetensors"))

    def reset(self) -> None:
        super().reset()

    def seen(self) -> tuple[Any, str]:
        try:
            run: Run = self.train(self.work, lambda: False, ExistingRun.RESUME).run
            return {name: value.tolist() for name, value in run.load_model().items()}, ""
        finally:
            self.reset()


class Manifest(Case):
    """The manifest of a dataset, as `ape show`, `ape verify` and a batch show it."""

    json = True
    suffix = "manifest.json"
    roots = ("manifest.json",)

    def make(self) -> None:
        write(self.template / "data", "tree-ops", "breadth", rows=(24, 8, 8))

    def files(self) -> Sequence[Path]:
        return sorted((self.work / "data").rglob(f"*{self.suffix}"))

    def seen(self) -> tuple[Any, str]:
        data = open_dataset(self.work / "data")
        rows = [data.split(name).table().to_pylist() for name in ("train", "validation", "test")]
        batches = [batch.row.tolist() for batch in data.split("train").batches(8, seed=1)]
        shown = [command("show", str(self.work / "data"), "--row", "3", *more) for more in ((), ("--json",))]
        verified = command("verify", "--data", str(self.work / "data"))
        return (data.manifest.model_dump(), rows, batches, shown, verified), verified[1]


class Shards(Manifest):
    """The shards of a dataset."""

    json = False
    suffix = ".parquet"


class Interrupted(Case):
    """The plan and the records of an interrupted generation, which the same command completes."""

    json = True

    def make(self) -> None:
        def stop(rows: int) -> None:
            if len(list((self.template / "data" / "data").glob("*.parquet"))) == 2:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            self.generate(self.template, stop)

    def generate(self, where: Path, tick: Any = None) -> Any:
        task = tasks.make("reverse", length_mean=5, length_std=1)
        wanted = generation.plan(task, seed=1, rows={"train": 60, "validation": 5, "test": 5}, shard_rows=20)
        return generation.generate(task, wanted, where / "data", tick=tick)

    def files(self) -> Sequence[Path]:
        return sorted(path for path in (self.work / "data").rglob(".*.json"))

    def seen(self) -> tuple[Any, str]:
        try:
            return self.generate(self.work).manifest.model_dump(), ""
        finally:
            self.reset()


class Source(Case):
    """A source of images, as `ape gen images` reads it."""

    written_by_us = False

    def files(self) -> Sequence[Path]:
        return sorted(path for path in self.work.rglob("*") if path.is_file())

    def seen(self) -> tuple[Any, str]:
        where = self.work.parent / "made"
        shutil.rmtree(where, ignore_errors=True)
        source = next(self.work.iterdir())
        code, out, err = command("gen", "images", "--source", str(source), "--out", str(where))
        if code:
            raise ApeError(err)
        return json.loads((where / "manifest.json").read_text())["fingerprint"], out + err


class Cifar(Source):
    """CIFAR-10 in a folder."""

    def make(self) -> None:
        train = [formats.part(seed, 4) for seed in range(5)]
        formats.folder(self.template / "source", formats.cifar_10_binary(train, formats.part(9, 4)))


class ParquetImages(Source):
    """Images in a Parquet file, as on the Hugging Face hub."""

    def make(self) -> None:
        part = formats.part(1, 40)
        (self.template / "source").mkdir()
        file = self.template / "source" / "train-00000-of-00001.parquet"
        formats.parquet(file, "img", formats.pngs(part.pixels), {"label": part.labels}, {"label": formats.AIRPLANES})


class Sweeps(Case):
    """The TOML file of a sweep, as `ape sweep --dry-run` reads it."""

    written_by_us = False

    def make(self) -> None:
        text = 'preset = "tiny"\nseeds = [1, 2]\ntasks = ["copy", "c3"]\n\n[[grid]]\nschemes = ["rope", "none"]\n'
        text += (
            'set = { decay = [0.98, 1.0], steps = 5 }\n\n[[grid]]\nschemes = ["orthogonal-seq"]\norders = ["depth"]\n'
        )
        (self.template / "sweep.toml").write_text(text)

    def files(self) -> Sequence[Path]:
        return [self.work / "sweep.toml"]

    def seen(self) -> tuple[Any, str]:
        folders = ("--results", str(self.work / "results"), "--datasets", str(self.work / "datasets"))
        code, out, err = command("sweep", str(self.work / "sweep.toml"), "--dry-run", "--json", *folders)
        if code:
            raise ApeError(err)
        return out, err


CASES: dict[str, type[Case]] = {
    "evaluations": Registry,
    "runs": Records,
    "histories": Histories,
    "weights": Weights,
    "states": State,
    "manifests": Manifest,
    "shards": Shards,
    "interrupted generations": Interrupted,
    "CIFAR": Cifar,
    "Parquet files of images": ParquetImages,
    "sweeps": Sweeps,
}
