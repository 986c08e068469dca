"""Runs that are registered without training: their JSON files, consistent in themselves and with digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ape_cli.runs import record
from ape_cli.runs.evaluation_record import evaluation_name
from ape_cli.storage import files

Metrics = dict[str, Any]


def fingerprint_of(name: str) -> str:
    """A fingerprint for a dataset that does not exist."""
    return hashlib.sha256(name.encode()).hexdigest()


def whole(parts: Sequence[Metrics]) -> Metrics:
    """The metrics of all rows, given those of groups of rows."""
    rows, tokens = (sum(part[name] for part in parts) for name in ("rows", "tokens"))
    found = {
        "token_accuracy": sum(part["token_accuracy"] * part["tokens"] for part in parts) / tokens,
        "exact_match": sum(part["exact_match"] * part["rows"] for part in parts) / rows,
        "rows": rows,
        "tokens": tokens,
    }
    if "cross_entropy" in parts[0]:
        found["cross_entropy"] = sum(part["cross_entropy"] * part["tokens"] for part in parts) / tokens
    return found


def put_evaluation(folder: Path, evaluation: dict[str, Any]) -> Path:
    """Writes an evaluation of the run in `folder`, and returns its path.

    What is missing is added: the run, the metrics of all rows, and a single size.
    """
    parts = evaluation.get("by_size") or evaluation.get("by_op")
    overall = evaluation["overall"] if not parts else whole(parts)
    sizes = evaluation.get("by_size") or [overall | {"size": 5}]
    made = evaluation | {"run": folder.name, "rows": overall["rows"], "overall": overall, "by_size": sizes}
    path = folder / "eval" / f"{evaluation_name(made['fingerprint'], made['split'], made['decode'])}.json"
    path.parent.mkdir(exist_ok=True)
    record.write(path, made)
    return path


def edit(path: Path, change: Callable[[dict[str, Any]], Any] | None = None, **fields: Any) -> None:
    """Changes a JSON file of a run by a function and by fields, and gives it its new digest."""
    found = json.loads(path.read_text())
    if change is not None:
        change(found)
    record.write(path, found | fields)


def rename(folder: Path, begin: str) -> Path:
    """Gives a run another name, which begins with its task, linearisation, scheme and seed. Returns its new folder."""
    renamed = folder.rename(folder.with_name(f"{begin}-{folder.name.rpartition('-')[2]}"))
    for path in (renamed / "run.json", *renamed.glob("eval/*.json")):
        edit(path, run=renamed.name)
    return renamed


def take_steps(folder: Path, steps: int) -> None:
    """Gives a run a number of steps, in its result and, unless it counts in epochs, in its configuration."""

    def change(about: dict[str, Any]) -> None:
        about["result"]["steps"] = steps
        if about["config"]["steps"] is not None:
            about["config"]["steps"] = steps

    edit(folder / "run.json", change)


def replace(path: Path, old: str, new: str) -> None:
    """Replaces text in a JSON file of a run, and gives the file its new digest."""
    text = path.read_text()
    assert old in text
    record.write(path, json.loads(text.replace(old, new)))


def strip_digest(path: Path) -> None:
    """Makes a JSON file one of a version that had no digests."""
    text = path.read_text()
    path.write_text(text[: text.index(',\n  "sha256": ', -100 + len(text))] + "\n}\n")


def vouch(folder: Path) -> None:
    """Writes the digests of the history and the weights into the run.json of a run."""
    there = [folder / name for name in ("history.parquet", "model.safetensors")]
    edit(folder / "run.json", files={path.name: files.sha256(path) for path in there if path.exists()})
