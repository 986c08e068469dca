"""Evaluation: scores of the best weights of a run on a split of a dataset, its own or another.

`teacher` scores every label given the true prefix (the preprint's metric). With `greedy` the model reads its own
output. The metrics are token accuracy (micro average over target tokens), exact match (share of targets that
are right as a whole) and cross-entropy (nats for each token; teacher forcing only). They are computed overall, by
size, and by operator (for images: by class). Sums are kept for each row, so nothing depends on the batch size.

Shapes: R rows.

A run can be evaluated if it is finished, and if its task (a user's own with the same code), structure, answers, image
size and vocabulary are those of the dataset.
"""

from __future__ import annotations

import logging
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from ape_cli import tasks
from ape_cli.core import memory, plugins
from ape_cli.core.errors import LEFT_OUT, ApeError, DataError, RunError, UsageError, pick
from ape_cli.data.collation import PositionReading
from ape_cli.data.loader import Dataset, ImageSplit, Split, open_dataset
from ape_cli.data.manifest import DatasetPlan
from ape_cli.evaluation.count_baselines import chance_by_size, count_baselines
from ape_cli.evaluation.metrics import MetricSums, greedy, teacher_forced
from ape_cli.experiment import Experiment
from ape_cli.experiment.generalisation import check_decoding
from ape_cli.experiment.spec import ExtraEvaluations
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.device import tune
from ape_cli.models.factory import check_installed, of_experiment, own_files, warn_if_changed
from ape_cli.models.transformer import Model, SequenceModel
from ape_cli.runs.record import DECODINGS, RECORD, DatasetRecord, RunRecord, evaluation_name
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage.paths import StoragePath, checked_name
from ape_cli.storage.tensors import AGAIN
from ape_cli.tasks import BaseTask
from ape_cli.tasks._trees import has_open_positions

_BATCH = 256  # rows of a batch
logger = logging.getLogger(__name__)


def evaluate(
    run: Run,
    data: Dataset | Experiment,
    *,
    split: str,
    decode: str,
    device: torch.device,
    batch_size: int = _BATCH,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Evaluate a finished run on a split of a dataset, and store the result.

    `data` is a dataset, which is checked first, or the experiment of the run on data that it fits. `stop` is called
    before each batch. `KeyboardInterrupt` is raised if it returns True.

    Raises `DataError` if the data does not fit the run, `UsageError` if the run is not finished or the decoding is not
    possible, and `RunError` if the run has no usable weights or its scores are not finite.
    """
    if isinstance(data, Dataset):
        pick("decoding", decode, DECODINGS)
        data = Experiment(check_fits(run, data, data.split(split), decode).config, data)
    record, part = run.record, data.data.split(split)
    tune()
    code, other = _code(record, data.data, decode)
    model = of_experiment(data)
    load_weights(run, model)
    metrics = scores(model.to(device), data, part, decode=decode, batch_size=batch_size, stop=stop)
    evaluation = {
        "run": run.name,
        "dataset": data.data.name,
        "fingerprint": data.data.fingerprint,
        "split": split,
        "decode": decode,
        "rows": part.rows,
        **({} if data.data.plan.rows["train"] else {"test_only": True}),
        **({"own_files": code} if code else {}),
        **_plan(data.data, record),
        **_baselines(data.data, record, split, decode),
        **metrics,
    }
    if evaluation.get("test_only") and decode == "teacher":
        _add_chance(evaluation, run, data.data, part)
    if not all(map(math.isfinite, evaluation["overall"].values())):
        what = "the weights of the run produce values that are not finite"
        raise RunError(what, got=run.name, fix=AGAIN)
    if other:
        what = f"the score of {run.name} is not stored: {' and '.join(other)} changed after training"
        logger.warning(f"{what}; restore the file and evaluate again, or {AGAIN}")
    else:
        run.save_evaluation(evaluation, record)
    return evaluation


def _code(record: RunRecord, data: Dataset, decode: str) -> tuple[dict[str, str], list[str]]:
    """The digests of the own code that a score depends on, and the parts of which the run or the data had other code.

    The code of a task counts if it decides the places of an answer that is decoded.
    """
    config, then = record.config, dict(record.last_own_files)
    code = own_files(config.scheme, config.attention, config.positions)
    if decode == "greedy" and has_open_positions(data.plan.structure, data.plan.tagged):
        task = f"task {data.task!r}"
        code |= {task: digest} if (digest := plugins.digest(tasks.load(data.task))) else {}
        then |= {task: data.plan.code} if data.plan.code else {}
    return code, [part for part, digest in then.items() if code.get(part) != digest]


def _baselines(data: Dataset, record: RunRecord, split: str, decode: str) -> dict[str, Any]:
    """The field `baselines` of an evaluation, empty unless a report shows it beside the score."""
    if decode == "teacher" and data.fingerprint == record.dataset.fingerprint:
        with suppress(ApeError):  # for example, a shard of the training split is damaged
            return {"baselines": count_baselines(data, split).counted}
    return {}


def _add_chance(evaluation: dict[str, Any], run: Run, data: Dataset, part: Split | ImageSplit) -> None:
    """Add the scores of always giving the most frequent answer of the training data at each size, if it is here."""
    with suppress(ApeError):
        train = own_dataset(run, data.folder.parent).split("train")
        if isinstance(train, Split) and isinstance(part, Split):
            chances = chance_by_size(train, part)
            for line in evaluation["by_size"]:
                line["chance"] = chances[line["size"]]


def _plan(data: Dataset, record: RunRecord) -> dict[str, Any]:
    """The field `plan` of an evaluation, empty if the run.json has what reports need to draw the rows again."""
    plan = data.plan
    if data.fingerprint == record.dataset.fingerprint and plan.code is None:
        return {}
    return {"plan": {"parameters": plan.parameters, "seed": plan.seed} | ({"code": plan.code} if plan.code else {})}


def scores(
    model: Model,
    experiment: Experiment,
    part: Split | ImageSplit,
    *,
    decode: str,
    batch_size: int = _BATCH,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """The metrics of the model of an experiment on a split of its dataset, as `summarise` returns them.

    `stop` is as for `evaluate`.
    """
    config, device = experiment.config, next(model.parameters()).device
    doing, mean = f"evaluating the {part.name} split", part.manifest.mean_tokens
    with memory.explained(doing, batch_size, mean):
        batches = _until(stop, part.batches(batch_size, options=experiment.batch_options()))
        if decode == "teacher":
            tally = teacher_forced(model, batches, device, config.precision)
        else:
            assert isinstance(model, SequenceModel)
            tally = greedy(model, batches, device, config.precision, *how_to_write(experiment))
    if isinstance(part, Split):
        column, names = "op", next(part.tables("op"))["op"].chunk(0).dictionary.to_pylist()
    else:
        column, names = "class", part.manifest.vocabulary
    return summarise(tally, column, names, entropy=decode == "teacher")


def how_to_write(experiment: Experiment) -> tuple[BaseTask | None, PositionReading]:
    """The task of the dataset if its trees unfold, and how the model reads positions, for greedy decoding.

    Raises the errors of `check_decoding`.
    """
    check_decoding(experiment.data, "greedy")
    data, reading = experiment.data, experiment.reading
    if not has_open_positions(data.structure, reading.tagged):
        return None, reading
    return tasks.recorded(data.task, data.order, data.parameters), reading


def _until(stop: Callable[[], bool], batches: Iterable[Any]) -> Iterator[Any]:
    """The batches, until `stop` returns True; then raise `KeyboardInterrupt`."""
    for batch in batches:
        if stop():
            raise KeyboardInterrupt
        yield batch


def own_dataset(run: Run, datasets: StoragePath | None = None) -> Dataset:
    """Open the dataset that a run was trained on: the one in `datasets`, or else at the path that it had then.

    Raises `DataError` if the dataset has changed since.
    """
    trained = run.record.dataset
    if datasets is not None:
        with suppress(DataError):
            data = open_dataset(datasets / checked_name("name of the dataset", trained.name))
            if data.fingerprint == trained.fingerprint:
                return data
    data = open_dataset(trained.path)
    if data.manifest.fingerprint != trained.fingerprint:
        got = f"{trained.path}: fingerprint {data.manifest.fingerprint[:12]}…, not {trained.fingerprint[:12]}…"
        fix = "generate it again with the same command, or name a dataset with `data`"
        raise DataError(f"the dataset of run {run.name} has changed since", got=got, fix=fix)
    return data


def missing(run: Run, sets: Iterable[Dataset], tests: ExtraEvaluations) -> list[tuple[Dataset, str]]:
    """The datasets with test rows, and the decodings, on which the run still has to be evaluated."""
    return [
        (data, decode)
        for data in sets
        if data.plan.rows["test"]
        for decode in tests.decodings(data)
        if run.evaluation(name_of(data, "test", decode)) is None
    ]


def rows_at_once(part: Split | ImageSplit) -> int:
    """The number of rows in a batch. Long rows are evaluated in small batches, because attention is quadratic."""
    if isinstance(part, ImageSplit):
        return _BATCH
    columns = (column for table in part.tables("source_ids", "target_ids") for column in table.columns)
    longest = max(pc.max(pc.list_value_length(column)).as_py() or 1 for column in columns)
    return max(1, min(_BATCH, _BATCH * 256**2 // longest**2))


def name_of(data: Dataset, split: str, decode: str) -> str:
    """The name of the evaluation's file in the folder of its run."""
    return evaluation_name(data.fingerprint, split, decode)


def check_fits(run: Run, data: Dataset, part: Split | ImageSplit, decode: str = "teacher") -> RunRecord:
    """Check that a run can be evaluated on this data. Returns the content of its run.json.

    Raises `DataError` or `UsageError` if it cannot.
    """
    record = check_finished(run)
    if reason := misfit(record.dataset, record.dataset.vocabulary, data):
        raise reason
    check_decoding(data, decode)
    part.require_rows()
    return record


def summarise(tally: MetricSums, part: str, names: Sequence[str], *, entropy: bool) -> dict[str, Any]:
    """The metrics as JSON: `overall`, `by_size` and `by_PART`, where the values of the part have the given names.

    Each metric is a ratio of sums over rows.
    """
    of = tally.columns()

    def metrics(rows: np.ndarray) -> dict[str, Any]:
        """The metrics of some of the rows. rows: bool [R], at least one True"""
        tokens, correct = of["tokens"][rows], of["correct"][rows]
        total = int(tokens.sum())
        return {
            "token_accuracy": float(correct.sum() / total),
            "exact_match": float((correct == tokens).mean()),
            **({"cross_entropy": float(of["nats"][rows].sum() / total)} if entropy else {}),
            "rows": len(tokens),
            "tokens": total,
        }

    def by(name: str) -> list[tuple[int, dict[str, Any]]]:
        """The metrics of the rows with each value of a column, in ascending order.

        The value -1 means none and is left out.
        """
        return [(int(value), metrics(of[name] == value)) for value in np.unique(of[name]) if value >= 0]

    return {
        "overall": metrics(np.ones(len(of["row"]), dtype=bool)),
        "by_size": [{"size": size, **scored} for size, scored in by("size")],
        f"by_{part}": [{part: names[op], **scored} for op, scored in by("op")],
    }


def check_finished(run: Run) -> RunRecord:
    """The content of run.json of a finished run.

    Raises `UsageError` if the run is not finished, and `RunError` if its own scheme is missing here.
    """
    record = run.record
    status = run.status_in(record)
    if status != "finished":
        fix = f"continue it: `ape train --config {shlex.quote(str(run.folder / RECORD))} --resume`"
        fix = "wait until it has finished" if status == "running" else fix
        raise UsageError("the run is not finished", got=f"{run.name}: {status}", fix=fix)
    check_installed(record.config)
    warn_if_changed(run.name, record.config, record.last_own_files)
    return record


def misfit(trained: DatasetRecord, vocabulary: list[str], data: Dataset) -> DataError | None:
    """The reason why a run that was trained on `trained` cannot be evaluated on `data`, or None if it can.

    `vocabulary`: the names of the run's ids.
    """
    plan = data.manifest.plan
    structure, image, tagged = plan.structure.expression, data.image and list(data.image), bool(plan.tagged)
    compared: list[tuple[str, Any, Any]] = [  # of the dataset and of the run
        ("task or order", [plan.task, plan.linearisation or ""], [trained.task, trained.order or ""]),
        ("task code", plan.code or trained.code, trained.code or plan.code),  # None: unknown, or a task of ape
        ("structure", _form(structure, plan.parameters), _form(trained.structure, trained.parameters)),
        ("kind of answers", _answers(plan, tagged), _answers(trained, trained.tagged)),
        ("size of images", image, trained.image and list(trained.image)),
        ("vocabulary", data.manifest.vocabulary, vocabulary),
    ]
    for what, of_data, of_run in compared:
        if of_data != of_run:
            message = f"the {what} of the dataset differs from that of the training data"
            got, allowed = f"{data.name}: {_text(of_data)}", f"{trained.name}: {_text(of_run)}"
            fix = "choose a dataset of the run's own task and options; its sizes may differ"
            return DataError(message, got=got, allowed=allowed, fix=fix)
    return None


def _form(structure: str, parameters: dict[str, Any]) -> str:
    """The structure of a dataset, with the branching of trees before they were binarised."""
    binarised = f", binarised from branching {parameters.get('branching', 2)}" if parameters.get("binarise") else ""
    return structure + binarised


def _answers(data: DatasetPlan | DatasetRecord, tagged: bool) -> str:
    """What decides the answers of a dataset, as text: options of its task if that is known here, and `tagged`."""
    parts = ["as tags"] if tagged else []
    with suppress(ApeError):
        task = tasks.load(data.task)
        options, recorded = tasks.options_of(task), task.recorded(data.parameters)
        parts = [*(f"{name} {recorded.get(name, options[name].default)}" for name in task.answer_options), *parts]
    return ", ".join(parts)


def _text(value: Any) -> str:
    """What is compared, as text: for a vocabulary, its first symbols."""
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} ids, {' '.join(value[3:9])} …"
    return " ".join(map(str, value)).strip() if isinstance(value, list) else str(value or "none")


def pending(registry: Registry, data: Sequence[Dataset], split: str, decode: str) -> list[tuple[Run, Dataset | None]]:
    """The evaluations that are still missing: finished runs, each with every dataset of `data` that it fits.

    If `data` is empty, None stands for the run's own dataset. Runs on images are never decoded greedily. Warnings name
    each run that cannot be read, and count the runs without weights and those that fit none of the datasets.
    """
    missing: list[tuple[Run, Dataset | None]] = []
    weightless = unfit = 0
    for run, record in registry.readable():
        trained = record.dataset
        if run.status_in(record) != "finished" or (decode == "greedy" and trained.image):
            continue
        fits: list[Dataset | None] = [d for d in data if not misfit(trained, trained.vocabulary, d)] if data else [None]
        unfit += not fits
        done = {(e["fingerprint"], e["split"], e["decode"]) for e in run.evaluations()[0]}
        of_run: list[tuple[Run, Dataset | None]] = []
        for other in fits:
            rows, fingerprint = (other.plan.rows, other.fingerprint) if other else (trained.rows, trained.fingerprint)
            if rows[split] and (fingerprint, split, decode) not in done:
                of_run.append((run, other))
        if of_run and not run.has_weights():
            weightless += 1
        else:
            missing += of_run
    for count, which in (
        (weightless, "without weights, which only training again brings back"),
        (unfit, "of another task, structure or vocabulary"),
    ):
        if count:
            logger.warning(f"{LEFT_OUT}finished runs {which}: {count:,}")
    return missing


def fitting(run: Run, data: Sequence[Dataset]) -> Sequence[Dataset]:
    """The datasets that fit a run. If none fits, all are returned, and `evaluate` raises an error that says why."""
    try:
        trained = run.record.dataset
    except RunError:
        return data
    return [d for d in data if not misfit(trained, trained.vocabulary, d)] or data
