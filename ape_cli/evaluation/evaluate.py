"""Evaluation: scores of the best weights of a run on a split of a dataset, its own or another.

`teacher` scores every label given the true prefix (the preprint's metric). With `greedy` the model reads its own output
(`decoding.py`). The metrics are token accuracy (micro average over target tokens), exact match (share of targets that
are right as a whole) and cross-entropy (nats for each token; teacher forcing only). They are computed overall, by
size, and by operator (for images: by class). Sums are kept for each row, so nothing depends on the batch size.

Shapes: R rows.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from ape_cli import tasks
from ape_cli.core import memory, plugins
from ape_cli.core.errors import DataError, RunError, pick
from ape_cli.data.collation import PositionReading
from ape_cli.data.loader import Dataset, ImageSplit, Split, open_dataset
from ape_cli.evaluation.decoding import greedy
from ape_cli.evaluation.fit import check_finished, misfit
from ape_cli.evaluation.metrics import MetricSums, teacher_forced
from ape_cli.experiment import Experiment
from ape_cli.experiment.generalisation import check_decoding
from ape_cli.experiment.spec import ExtraEvaluations
from ape_cli.models.checkpoint import load_weights
from ape_cli.models.device import tune
from ape_cli.models.factory import of_experiment, own_files
from ape_cli.models.transformer import Model, SequenceModel
from ape_cli.runs.record import DECODINGS, RunRecord, evaluation_name
from ape_cli.runs.run import Run
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
        **metrics,
    }
    if not all(map(math.isfinite, evaluation["overall"].values())):
        what = "the weights of the run produce values that are not finite"
        raise RunError(what, got=run.name, fix="train it again with `overwrite`")
    if other:
        what = f"the score of {run.name} is not stored: it is one of other code of {' and '.join(other)}"
        logger.warning(f"{what}; restore the file and evaluate again, or train again with `overwrite`")
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
    with memory.explained(doing, batch_size, mean) as watched:
        batches = watched(_until(stop, part.batches(batch_size, options=experiment.batch_options())))
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


def own_dataset(run: Run) -> Dataset:
    """Open the dataset that a run was trained on, at the path that it had then.

    Raises `DataError` if the dataset has changed since.
    """
    trained = run.record.dataset
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
    if not part.rows:
        raise DataError(f"the {part.name} split is empty", got=data.name, fix="generate rows for it")
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
