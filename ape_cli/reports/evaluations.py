"""The evaluations in a registry: a line for each run, evaluation and metric, and which of them a report is about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import polars as pl

from ape_cli import tasks
from ape_cli.core.errors import ApeError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.reports import paper
from ape_cli.reports.columns import LINES
from ape_cli.runs.config import PRESETS, read_json
from ape_cli.runs.record import DECODINGS, variant_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.structure import linearisation

METRICS = {  # what they are called: of sequences; of images, where a row has one label; of both
    "token_accuracy": ("token accuracy", "top-1 accuracy", "accuracy"),
    "exact_match": ("exact match", "top-1 accuracy", "exact match"),
    "cross_entropy": ("cross-entropy", "cross-entropy", "cross-entropy"),
}
_NATS = ("nats a token", "nats an image", "nats a token or image")
SMALLER_IS_BETTER = {"cross_entropy"}


@cache
def is_image(task: str) -> bool:
    """Whether the rows of a task are images."""
    return tasks.kind_of(task) == "image"


def measured(metric: str, found: Iterable[str | None]) -> tuple[str, str]:
    """What a metric is called where it is of these tasks, and its unit.

    >>> measured("token_accuracy", ["copy", "c3"]), measured("cross_entropy", ["images"])
    (('token accuracy', '%'), ('cross-entropy', 'nats an image'))
    """
    kinds = {is_image(task) for task in found if task is not None}
    which = 2 if len(kinds) == 2 else int(True in kinds)
    return METRICS[metric][which], _NATS[which] if metric in SMALLER_IS_BETTER else "%"


def described(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, dict[str, Any], dict[str, Any]]]:
    """The readable runs, each with its run.json and what tables say of it; `bad` gets a line about each other one."""
    for run, about in registry.sound(bad):
        config, trained = about["config"], about["dataset"]
        apart_from_seed = json.dumps(config | {"seed": 0})
        configuration, attention = _identity(apart_from_seed, trained["fingerprint"])
        of_run = {
            "task": trained["task"],
            "order": trained["order"],
            "scheme": config["scheme"],
            "variant": variant_text(about),
            "configuration": configuration,
            "attention": attention,
            "preset": config["preset"],
            "seed": config["seed"],
            "structure": trained["structure"],
            "form": _form(trained),
            "trained_on": trained["name"],
            "trained_fingerprint": trained["fingerprint"],
            "paper_size": _is_paper_size(config["preset"], trained),
        }
        yield run, about, of_run


def scores(registry: Registry) -> tuple[pl.DataFrame, list[str]]:
    """One line for each run, evaluation and metric; and a line of text for each run that is unreadable."""
    lines, bad = [], list[str]()
    for run, _, of_run in described(registry, bad):
        evaluations, damaged = run.evaluations()
        bad += [f"{run.name}: {line}" for line in damaged]
        for evaluation in evaluations:
            of_evaluation = {name: evaluation[name] for name in ("decode", "split", "dataset", "fingerprint")}
            lines += [
                {**of_run, **of_evaluation, "metric": metric, "value": value}
                for metric in METRICS
                if (value := evaluation["overall"].get(metric)) is not None
            ]
    schema = {k: v for k, v in LINES.items() if k not in ("mean", "std", "seeds", "best", "low", "high")}
    return pl.DataFrame(lines, schema=schema | {"value": pl.Float64, "seed": pl.Int64}, orient="row"), bad


@cache
def _identity(config: str, fingerprint: str) -> tuple[str, str]:
    """The digest of a configuration apart from its seed, and its attention; seeds ask for the same again."""
    checked = read_json(config)
    return checked.digest(fingerprint, without=("seed",)), checked.attention


def _form(trained: dict[str, Any]) -> str:
    """What makes a task another than the paper's: `branching 3, binarised`; what images are of: `digits (shuffled)`."""
    parameters = trained["parameters"]
    if trained.get("image"):
        return str(parameters["source"]) + " (shuffled)" * bool(parameters.get("shuffled"))
    parts = [f"branching {parameters['branching']}"] if parameters.get("branching", 2) != 2 else []
    return ", ".join(parts + ["binarised"] * bool(parameters.get("binarise")))


def _is_paper_size(preset: str, trained: dict[str, Any]) -> bool:
    """Whether a run has the paper's own model, rows and sizes of words or trees; or all of its images."""
    rows = trained["rows"]
    if preset == "paper" and trained.get("image"):
        # validation is held out of the images for training; how many, equal ones among them decide
        everything = (rows["train"] + rows["validation"], rows["test"]) == paper.IMAGES_ROWS
        return _form(trained) == paper.IMAGES and everything
    if preset != "paper" or trained["task"] not in tasks.names():
        return False
    own = tasks.make(trained["task"], *linearisation.parse(trained["order"])).parameters
    return bool(trained["parameters"] == own and rows == PRESETS["paper"].rows)


def check(*, metric: str, decode: str, split: str) -> None:
    """That there can be such scores; else a `UsageError`."""
    pick("metric", metric, METRICS)
    pick("split", split, SPLITS)
    pick("decoding", decode, DECODINGS)


def choice(registry: Registry, *, metric: str, decode: str, split: str) -> str:
    """What was asked of a registry, in words, for errors that say there is no such score."""
    chosen = str(registry.chosen)
    return f"metric {metric}, decode {decode}, split {split}" + (f", {chosen}" if chosen else "")


def wanted(
    registry: Registry, *, metric: str, decode: str, split: str, own: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """The scores that are asked for, with `own` on the runs' own data alone.

    An empty choice is an `ApeError` that says what to run.
    """
    check(metric=metric, decode=decode, split=split)
    values, bad = scores(registry)
    if values.is_empty():
        raise ApeError(
            "there is nothing to report: no evaluated run",
            got=f"{registry.folder}",
            fix="train one first: `ape train --scheme rope --task copy`, then `ape report`",
        )
    chosen = values.filter(
        pl.col("metric") == metric,
        pl.col("decode") == decode,
        pl.col("split") == split,
        pl.col("fingerprint") == pl.col("trained_fingerprint") if own else pl.lit(True),
    )
    if chosen.is_empty():
        there = values.select("metric", "decode", "split", "preset").unique().sort(pl.all()).rows()
        raise ApeError(
            "no evaluation is like this",
            got=choice(registry, metric=metric, decode=decode, split=split),
            allowed="; ".join(", ".join(row) for row in there),
            fix="evaluate the runs so: `ape eval --split … --decode …`, or ask for what there is",
        )
    return chosen, bad


def task_of(line: dict[str, Any]) -> str:
    """The task of a line as a table's column names it: `c3/breadth`; of images their source."""
    if is_image(line["task"]):
        return str(line["form"])
    name = f"{line['task']}/{line['order']}" if line["order"] else str(line["task"])
    return f"{name} ({line['form']})" if line["form"] else name
