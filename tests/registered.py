"""Runs that are registered without training: their JSON files, and their digests in run.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ape_cli.runs import record
from ape_cli.runs.config import read_config
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
    """Writes an evaluation of the run in `folder`, lists it in run.json, and returns its path.

    What is missing is added: the run, the metrics of all rows, and a single size.
    """
    parts = evaluation.get("by_size") or evaluation.get("by_op")
    overall = evaluation["overall"] if not parts else whole(parts)
    sizes = evaluation.get("by_size") or [overall | {"size": 5}]
    made = evaluation | {"run": folder.name, "rows": overall["rows"], "overall": overall, "by_size": sizes}
    path = folder / evaluation_name(made["fingerprint"], made["split"], made["decode"])
    path.parent.mkdir(exist_ok=True)
    write(path, made)
    vouch(folder)
    return path


def write(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def edit(path: Path, change: Callable[[dict[str, Any]], Any] | None = None, **fields: Any) -> None:
    """Changes a JSON file by a function and by fields. Its new digest is listed in the run.json of its run."""
    found = json.loads(path.read_text())
    if change is not None:
        change(found)
    write(path, found | fields)
    if path.parent.name == "eval":
        vouch(path.parents[1])


def rename(folder: Path) -> Path:
    """Gives a run that was edited the name of its configuration and data. Returns its new folder."""
    about = json.loads((folder / "run.json").read_text())
    data = about["dataset"]
    name = record.run_name(read_config(about["config"]), data["task"], data["order"], data["fingerprint"])
    renamed = folder.rename(folder.with_name(name))
    for path in (renamed / "run.json", *renamed.glob("eval/*.json")):
        edit(path, run=name)
    return renamed


def take_steps(folder: Path, steps: int) -> None:
    """Gives a run a number of steps."""
    edit(folder / "run.json", lambda about: about["result"].update(steps=steps))


def replace(path: Path, old: str, new: str) -> None:
    """Replaces text in a JSON file of a run, and lists its new digest in run.json."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    if path.parent.name == "eval":
        vouch(path.parents[1])


def vouch(folder: Path) -> None:
    """Lists the files of a run with their digests in its run.json."""
    there = [folder / name for name in ("history.parquet", "model.safetensors")]
    there = [path for path in there if path.exists()] + sorted(folder.glob("eval/*.json"))
    edit(folder / "run.json", files={str(path.relative_to(folder)): files.sha256(path) for path in there})
