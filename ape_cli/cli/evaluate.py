"""`ape eval`: evaluate registered runs."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli.console import (
    accuracy_of,
    print_json,
    print_note,
    print_note_lines,
    print_result,
    print_table,
    scores_in_words,
)
from ape_cli.cli.options import DEVICE, EXECUTION, SCORES, THREADS, AnyPath, Folders, Json, option, path
from ape_cli.core import escaping, runtime
from ape_cli.core.errors import ApeError, UsageError, pick
from ape_cli.core.numbers import perplexity, perplexity_text
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:  # imported by the command when it runs, because torch is slow to import
    from ape_cli.data.loader import Dataset
    from ape_cli.runs.registry import Registry
    from ape_cli.runs.run import Run
    from ape_cli.storage.paths import StoragePath


@dataclass(frozen=True)
class EvaluationOptions:
    """What is measured, and how."""

    PANEL: ClassVar = SCORES
    split: str = option("Split to evaluate on: train, validation or test.", default="test")
    data: list[AnyPath] | None = path("Dataset to evaluate on; may be repeated. Default: the dataset of each run.")
    decode: str = option("Decoding: teacher (forcing), or greedy (the model reads its own output).", default="teacher")
    device: str = option(DEVICE, default="auto", panel=EXECUTION)
    batch_size: int = option("Rows per batch. Results do not depend on it.", default=256, panel=EXECUTION)
    threads: int | None = option(THREADS, panel=EXECUTION)


@command("ape eval --decode greedy", name="eval")
def evaluate(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs, or prefixes of names.")] = None,
    *,
    options: EvaluationOptions,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Evaluate runs on every dataset that they fit. Default: all finished runs without this evaluation.

    \f
    Raises `UsageError` if options are not valid.
    """
    runtime.share_cores()
    from ape_cli.core.vocabulary import SPLITS
    from ape_cli.data.loader import open_dataset
    from ape_cli.evaluation import evaluate
    from ape_cli.experiment.generalisation import check_decoding
    from ape_cli.models.device import choose_device
    from ape_cli.runs.record import DECODINGS
    from ape_cli.runs.registry import open_registry

    decode, split = pick("decoding", options.decode, DECODINGS), pick("split", options.split, SPLITS)
    where = choose_device(options.device, options.threads)
    if options.batch_size < 1:
        raise UsageError("bad --batch-size", got=options.batch_size, allowed="1 or more", fix="leave it out")
    registry = open_registry(folders.results)
    opened = [open_dataset(existing_dataset(folder, folders.datasets)) for folder in options.data or []]
    for data in opened:
        check_decoding(data, decode)
    others = list({data.fingerprint: data for data in opened}.values())
    work = _work(runs, registry, others, split, decode)
    done, failed = [], 0
    on: dict[str, Dataset] = {}
    pairs: dict[tuple[str, str], tuple[Run, Dataset]] = {}  # by the fingerprints of training and evaluation data
    for run, other in work:
        try:
            against = other or evaluate.own_dataset(run, folders.datasets)
            with slow_step(f"evaluating {run.name} on {against.name}, {decode} decoding"):
                result = evaluate.evaluate(
                    run, against, split=split, decode=decode, device=where, batch_size=options.batch_size
                )
        except ApeError as error:
            if len(work) == 1:
                raise
            failed += 1
            print_note_lines(f"error: {escaping.one_line(run.name)}: {error}")
            continue
        done.append(result)
        on.setdefault(against.fingerprint, against)
        pairs.setdefault((run.record.dataset.fingerprint, against.fingerprint), (run, against))
        if not as_json:
            if len(work) == 1:
                _print_evaluation(result)
            else:
                scores = scores_in_words(result["overall"], against.modality)
                print_result(f"{result['run']} on {result['dataset']} ({split}, {decode}): {scores}", indent=2)
    for run, against in pairs.values():
        _note_overlap(run, against, split, folders.datasets)
    if as_json:
        counted = _baselines(on.values(), split)
        print_json([with_perplexity(result) | {"baselines": counted.get(result["fingerprint"])} for result in done])
    else:
        _print_baselines(on.values(), split, several=len(work) > 1)
    if failed:
        raise typer.Exit(1)


def _work(
    names: list[str] | None, registry: Registry, data: list[Dataset], split: str, decode: str
) -> list[tuple[Run, Dataset | None]]:
    """The evaluations to do: pairs of a run and a dataset, where None stands for the run's own dataset.

    Without names, notes say which runs are left out, or that there is nothing to do.
    """
    from ape_cli.evaluation.evaluate import fitting, pending

    if names:
        named = {run.name: run for run in map(registry.find, names)}.values()
        return [(run, other) for run in named for other in (fitting(run, data) if data else [None])]
    work = pending(registry, data, split, decode)
    if not work:
        images = ", except on images, which are not decoded" * (decode == "greedy")
        print_note(f"nothing to evaluate: every finished run that can be evaluated already has this evaluation{images}")
    return work


def _note_overlap(run: Run, data: Dataset, split: str, datasets: StoragePath) -> None:
    """Print how many rows of a split have a source that the run was trained on, unless there are none.

    Nothing is printed if the dataset of the run has changed or is no longer there, or about the training rows.
    """
    from ape_cli.data import overlap
    from ape_cli.evaluation.evaluate import own_dataset

    if split == "train" and run.record.dataset.fingerprint == data.fingerprint:
        return
    with suppress(ApeError):
        trained = own_dataset(run, datasets)
        if words := overlap.between(trained, data, split).words(data.plan):
            print_note(f"overlap of {data.name} with the training rows of {trained.name}: {words}")


def _baselines(on: Collection[Dataset], split: str) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of each baseline on each dataset, by its fingerprint."""
    from ape_cli.evaluation.count_baselines import count_baselines

    scores = {}
    for data in (data for data in on if data.plan.rows["train"]):
        try:
            with slow_step(f"computing the baselines of {data.name}"):
                scores[data.fingerprint] = count_baselines(data, split).counted
        except ApeError as error:  # for example, the training split is damaged
            print_note(f"{data.name}: no baselines, {error.summary}")
    return scores


def _print_baselines(on: Collection[Dataset], split: str, *, several: bool) -> None:
    """Print what baselines reach on each dataset, after one or `several` evaluations."""
    counted = _baselines(on, split)
    for data in (data for data in on if data.fingerprint in counted):
        before, scores = f"{data.name}: " if several else "", counted[data.fingerprint]
        if data.image is not None:
            ((usual, guess),) = scores.items()
            print_result(f"{before}accuracy of always answering the {usual}: {guess['token_accuracy']:.2%}")
        else:
            rows = [[name, *(f"{part[score]:.2%}" for score in _SCORES)] for name, part in scores.items()]
            print_result(
                f"{before}simple rules without a model, counted on the training split; target lengths are given"
            )
            print_table(["rule", *_SCORES.values()], rows, _SCORES.values())


_SCORES = {"token_accuracy": accuracy_of("sequence"), "exact_match": "exact match"}


def _print_evaluation(result: dict[str, Any]) -> None:
    """Print an evaluation as a table: by size and operator, or by class for images."""
    image = "by_class" in result
    scores = {"token_accuracy": accuracy_of("image")} if image else _SCORES
    entropy = ["cross-entropy", "perplexity"] if "cross_entropy" in result["overall"] else []
    counts = {"rows": "images"} if image else {"rows": "rows", "tokens": "tokens"}
    parts = [("all", result["overall"])]
    for column, label in (("class", ""),) if image else (("size", "size "), ("op", "")):
        parts += [(f"{label}{part[column]}", part) for part in result.get(f"by_{column}", [])]
    rows = []
    for label, part in parts:
        cells = [label, *(f"{part[name]:.2%}" for name in scores)]
        if entropy:
            cells += [f"{part['cross_entropy']:.4f}", perplexity_text(perplexity(part["cross_entropy"]))]
        rows.append([*cells, *(f"{part[name]:,}" for name in counts)])
    decoding = "" if image else f", {result['decode']} decoding"
    print_result(f"{result['run']} on {result['dataset']} ({result['split']}{decoding})")
    numbers = [*scores.values(), *entropy, *counts.values()]
    print_table(["class" if image else "rows of", *numbers], rows, numbers)


def with_perplexity(part: Any) -> Any:
    """An evaluation with the perplexity beside each cross-entropy. An infinite one is None, because JSON has none."""
    if isinstance(part, list):
        return [with_perplexity(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {name: with_perplexity(value) for name, value in part.items()}
    if "cross_entropy" in part:
        value = perplexity(part["cross_entropy"])
        part["perplexity"] = value if math.isfinite(value) else None
    return part
