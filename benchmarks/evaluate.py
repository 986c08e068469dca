"""Teacher-forced evaluation of 2,000 rows, compared with a bare forward pass over the same batches in memory.

`evaluate.evaluate` reads the run, builds the model, loads its weights, reads and pads the rows, scores them,
sums by size and stores the result. The time of the whole command, which also imports torch, is given beside it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ape_cli import experiment, tasks
from ape_cli.data import generation
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.device import choose_device
from ape_cli.models.transformer import SequenceModel
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from benchmarks._measure import Row, ape, paired, process
from benchmarks._steps import sequences

SUMMARY = "teacher-forced evaluation of 2,000 rows, compared with a bare forward pass"
ROWS, BATCH, ROUNDS = 2_000, 256, 9
_SIZES: dict[str, Any] = {"length_mean": 20, "length_std": 2}  # the sizes of preset `small`


def measure() -> Iterator[Row]:
    """The ratio of evaluation to forward passes."""
    device = choose_device("auto")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        made, rows = tasks.make("reverse", None, **_SIZES), {"train": 64, "validation": 64, "test": ROWS}
        generation.generate(made, generation.plan(made, seed=1, rows=rows, shard_rows=ROWS), at / "data")
        data, results = open_dataset(at / "data"), at / "results"
        chosen = ExperimentSpec(preset="small", scheme="none", set={"steps": 1}).config("sequence")
        run = trial.run_trial(experiment.of(chosen, data), open_registry(results), Execution(device), test=False).run
        model = factory.build(run.record.config, data.structure, data.ids).to(device).eval()
        batches = [batch.to(device) for batch in sequences(data, "test").batches(BATCH)]

        def ours() -> None:
            evaluate.evaluate(run, data, split="test", decode="teacher", device=device, batch_size=BATCH)

        pair = paired(ours, lambda: _forward(model, batches), rounds=ROUNDS)
        command = ape("eval", run.name, "--results", str(results), "--device", device.type)
        whole = statistics.median(process(command).wall for _ in range(3))
    absolute = {"evaluate s": pair.a, "forward s": pair.b, "the whole command s": whole}
    what = f"evaluate / forward, preset small, {torch.get_num_threads()} threads"
    yield Row(what, pair.ratio, 1.2, low=pair.low, high=pair.high, absolute=absolute)


@torch.no_grad()
def _forward(model: SequenceModel, batches: list[SequenceBatch]) -> float:
    """Run the model on each batch."""
    for b in batches:
        scores = model(*b.inputs)
    return float(scores[0, 0, 0])  # on a GPU, this waits for the result
