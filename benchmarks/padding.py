"""The share of real tokens among all tokens of an epoch: every task, at its default sizes and at preset small."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ape_cli import tasks
from ape_cli.data import generation
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import open_dataset
from ape_cli.runs import config
from ape_cli.storage.parquet import ROW_GROUP
from benchmarks._measure import Row
from benchmarks._steps import sequences

SUMMARY = "share of real tokens in a training epoch with batches of 64"


def measure() -> Iterator[Row]:
    """The share of the side with the most padding, for each task."""
    for preset in ("paper", "small"):  # `paper` has the default sizes of the tasks
        for name in tasks.names():
            with tempfile.TemporaryDirectory() as folder:
                batches = _epoch(name, preset, Path(folder))
                source, target = (np.array(list(map(count, batches))).sum(0) for count in (_source, _target))
            counts = {"source": source, "target": target, "both": source + target}
            share = {side: real / padded for side, (real, padded) in counts.items()}
            absolute = share | {"million tokens of both": counts["both"][1] / 1e6}
            sizes = "default sizes" if preset == "paper" else "sizes of small"
            yield Row(f"{name}, {sizes}: the worst side", min(share.values()), 0.9, at_least=True, absolute=absolute)


def _epoch(name: str, preset: str, folder: Path) -> list[SequenceBatch]:
    """The batches of the first training epoch of a preset."""
    chosen = config.preset(preset)
    own = {f.name for f in dataclasses.fields(tasks.load(name))}
    made = tasks.make(name, **{k: v for k, v in chosen.sizes.items() if k in own})
    rows = chosen.rows | {"validation": 0, "test": 0}
    generation.generate(made, generation.plan(made, seed=42, rows=rows, shard_rows=ROW_GROUP), folder)
    return list(sequences(open_dataset(folder), "train").batches(chosen.sequence["batch_size"], seed=42))


def _source(batch: SequenceBatch) -> tuple[int, int]:
    """Real and padded tokens of the source."""
    return int(batch.source_mask.sum()), batch.source_mask.numel()


def _target(batch: SequenceBatch) -> tuple[int, int]:
    """Real and padded tokens of the target."""
    return int(batch.label_mask.sum()), batch.labels.numel()
