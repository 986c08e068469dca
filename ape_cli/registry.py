"""Runs on disk: `results/runs/RUN/`, one folder and one writer each; the index is a scan.

    run.json           resolved config, dataset, versions, git commit, status, timings
    model.safetensors  the best weights by validation token accuracy
    state/             what resuming needs; gone when the run is finished
    history.parquet    a line a validation
    eval/*.json        one per dataset x split x decoding

RUN is task-order-scheme-seed and a short hash of the configuration and the data: the same
configuration is the same run. Nothing here is a pickle, and no pickle is ever read.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import ape_cli
from ape_cli import files
from ape_cli.config import Config
from ape_cli.errors import RunError, unknown

if TYPE_CHECKING:  # torch comes in with weights alone, so that listing and reporting stay fast
    import torch

    from ape_cli.dataset import Dataset
    from ape_cli.train import Result, Tensors

VERSION = 1


class Run:
    """One run's folder. It is what `train.fit` stores into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.name

    # run.json

    def read(self) -> dict[str, Any]:
        """run.json; a `RunError` says what is wrong with it."""
        path = self.folder / "run.json"
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(
                "the run has no run.json: it was never begun properly",
                got=str(self.folder),
                fix="remove the folder and train again",
            ) from None
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {path}", got=str(error), fix="remove the run and train again") from error
        missing = {"version", "config", "dataset", "status"} - (about.keys() if isinstance(about, dict) else set())
        if missing:
            raise RunError(f"{path} is damaged", got=f"no {', '.join(sorted(missing))}", fix="train again")
        if about["version"] != VERSION:
            raise RunError(f"{path} has another version", got=about["version"], allowed=VERSION, fix="train again")
        return about

    def config(self) -> Config:
        try:
            return Config.model_validate(self.read()["config"])
        except ValueError as error:
            if isinstance(error, RunError):
                raise
            raise RunError(f"{self.folder / 'run.json'} is damaged", got=str(error), fix="train again") from error

    def update(self, **fields: Any) -> None:
        files.write_json(self.folder / "run.json", self.read() | fields)

    @property
    def status(self) -> str:
        """`finished`, `stopped`, `failed`, `running`; a run whose process is gone is `stopped`."""
        said = str(self.read()["status"])
        return "stopped" if said == "running" and not files.is_locked(self.folder / ".lock") else said

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write; one process at a time."""
        busy = RunError("another process is training this run", got=self.name, fix="wait for it, or stop it")
        with files.locked(self.folder / ".lock", busy):
            yield

    # What train.fit stores

    def save_state(self, tensors: Tensors, cursor: dict[str, Any]) -> None:
        self._save(self.folder / "state" / "state.safetensors", tensors, cursor)

    def load_state(self) -> tuple[Tensors, dict[str, Any]] | None:
        path = self.folder / "state" / "state.safetensors"
        return load_tensors(path) if path.exists() else None

    def save_model(self, tensors: Tensors, about: dict[str, Any]) -> None:
        self._save(self.folder / "model.safetensors", tensors, about)

    def save_history(self, rows: list[dict[str, Any]]) -> None:
        with files.replacing(self.folder / "history.parquet") as temporary:
            pl.DataFrame(rows, infer_schema_length=None).write_parquet(temporary)

    def _save(self, path: Path, tensors: Tensors, about: dict[str, Any]) -> None:
        import safetensors.torch

        with files.replacing(path) as temporary:
            contiguous = {k: v.detach().contiguous() for k, v in tensors.items()}
            # one key: several would be written in an order that changes from run to run
            safetensors.torch.save_file(contiguous, temporary, metadata={"ape": json.dumps(about, sort_keys=True)})

    # Life

    def finish(self, result: Result) -> None:
        self.update(status="finished", finished=_now(), result=vars(result))
        self._drop_state()

    def _drop_state(self) -> None:
        state = self.folder / "state"
        for path in state.glob("*") if state.is_dir() else ():
            path.unlink()
        if state.is_dir():
            state.rmdir()

    def clear(self) -> None:
        """Forget everything but the folder, to begin again."""
        self._drop_state()
        for name in ("model.safetensors", "history.parquet", "run.json"):
            (self.folder / name).unlink(missing_ok=True)
        for path in (self.folder / "eval").glob("*.json"):
            path.unlink()

    # What was found

    def load_model(self, model: torch.nn.Module) -> None:
        """Put the best weights into a model of the run's configuration."""
        path = self.folder / "model.safetensors"
        if not path.exists():
            raise RunError("the run has no weights", got=self.name, fix="train it (again): `ape train … --overwrite`")
        tensors, _ = load_tensors(path)
        want = {k: list(v.shape) for k, v in model.state_dict().items()}
        have = {k: list(v.shape) for k, v in tensors.items()}
        if want != have:
            wrong = next(k for k in sorted(want | have) if want.get(k) != have.get(k))
            raise RunError(
                f"{path} does not fit the run's configuration",
                got=f"{wrong} of shape {have.get(wrong, 'none')}",
                allowed=f"{want.get(wrong, 'no such tensor')}",
                fix="train the run again with --overwrite",
            )
        model.load_state_dict(tensors)

    def history(self) -> pl.DataFrame:
        path = self.folder / "history.parquet"
        return pl.read_parquet(path) if path.exists() else pl.DataFrame()

    def save_evaluation(self, name: str, evaluation: dict[str, Any]) -> None:
        files.write_json(self.folder / "eval" / f"{name}.json", evaluation)

    def evaluation(self, name: str) -> dict[str, Any] | None:
        """One evaluation by its file's name, None if it was not made."""
        path = self.folder / "eval" / f"{name}.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {path}", got=str(error), fix="remove it and run `ape eval`") from error
        return found

    def evaluations(self) -> list[dict[str, Any]]:
        """All of them, by name."""
        found = (self.evaluation(path.stem) for path in sorted((self.folder / "eval").glob("*.json")))
        return [e for e in found if e is not None]


class Registry:
    """All runs under a folder. Make one with `open`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Run]:
        runs = self.folder / "runs"
        for path in sorted(runs.iterdir()) if runs.is_dir() else ():
            if path.is_dir() and not path.name.startswith("."):
                yield Run(path)

    def sound(self) -> tuple[list[Run], list[str]]:
        """The runs that can be read, and a line about each that cannot."""
        good, bad = [], []
        for run in self:
            try:
                run.config()
            except RunError as error:
                bad.append(f"{run.name}: {error.what}")
            else:
                good.append(run)
        return good, bad

    def find(self, name: str) -> Run:
        """A run by its name, its folder, or a beginning that only it has."""
        names = [run.name for run in self]
        wanted = Path(name).name
        if wanted in names:
            return Run(self.folder / "runs" / wanted)
        alike = [n for n in names if n.startswith(wanted)]
        if len(alike) == 1:
            return Run(self.folder / "runs" / alike[0])
        if alike:
            raise RunError("several runs begin like this", got=name, allowed=", ".join(alike), fix="give more of it")
        raise unknown("run", name, names)

    def place(self, config: Config, data: Dataset) -> Run:
        """Where the run of this configuration on this data stands, whether or not it exists."""
        plan = data.manifest.plan
        parts = [
            plan.task,
            plan.order,
            config.scheme,
            str(config.seed),
            config.digest(data.manifest.fingerprint),
        ]
        return Run(self.folder / "runs" / "-".join(p for p in parts if p))

    def begin(self, run: Run, config: Config, data: Dataset, device: torch.device, variant: dict[str, Any]) -> None:
        """Write the first run.json. `variant`: the fields in which it differs from its preset."""
        import torch

        plan = data.manifest.plan
        about = {
            "version": VERSION,
            "run": run.name,
            "status": "running",
            "config": config.model_dump(),
            "variant": variant,
            "dataset": {
                "name": data.name,
                "path": str(data.folder),
                "fingerprint": data.manifest.fingerprint,
                "task": plan.task,
                "order": plan.order,
                "structure": plan.structure,
                "parameters": plan.parameters,
                "seed": plan.seed,
                "rows": plan.rows,
                "mean_size": data.manifest.mean_size,
                "mean_tokens": data.manifest.mean_tokens,
                "vocabulary": data.manifest.vocabulary,
            },
            "versions": {"ape": ape_cli.__version__, "torch": torch.__version__},
            "commit": _commit(),
            "device": str(device),
            "threads": torch.get_num_threads(),
            "started": _now(),
        }
        files.write_json(run.folder / "run.json", about)

    def runs(self) -> pl.DataFrame:
        """One line a run."""
        lines = []
        for run in self.sound()[0]:
            about = run.read()
            config, data, result = about["config"], about["dataset"], about.get("result") or {}
            lines.append(
                {
                    "run": run.name,
                    "task": data["task"],
                    "order": data["order"],
                    "scheme": config["scheme"],
                    "preset": config["preset"],
                    "seed": config["seed"],
                    "status": run.status,
                    "dataset": data["name"],
                    "parameters": result.get("parameters"),
                    "steps": result.get("steps"),
                    "seconds": result.get("seconds"),
                    "validation_token_accuracy": result.get("best_accuracy"),
                    "started": about.get("started"),
                    "finished": about.get("finished"),
                }
            )
        return pl.DataFrame(lines, schema=_RUNS, orient="row")


_RUNS = {
    "run": pl.String,
    "task": pl.String,
    "order": pl.String,
    "scheme": pl.String,
    "preset": pl.String,
    "seed": pl.Int64,
    "status": pl.String,
    "dataset": pl.String,
    "parameters": pl.Int64,
    "steps": pl.Int64,
    "seconds": pl.Float64,
    "validation_token_accuracy": pl.Float64,
    "started": pl.String,
    "finished": pl.String,
}


def open(folder: str | Path) -> Registry:
    """The registry in a folder, which need not exist yet."""
    return Registry(Path(folder))


def load_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and the JSON beside them. Anything but a whole safetensors file of ours is a `RunError`."""
    import safetensors

    again = "train the run again with --overwrite"
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return tensors, json.loads(metadata["ape"])
    except (safetensors.SafetensorError, OSError) as error:
        raise RunError(f"{path} is not a whole safetensors file", got=str(error), fix=again) from error
    except (KeyError, ValueError) as error:
        raise RunError(f"{path} was not written by ape", got="no metadata of ours", fix=again) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of this program's own checkout, with a + where it has changes; None outside of one."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(here), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here.parent:
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
