"""Draw a sample of a dataset: source and target as words, trees, grids or rings, or an image with its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ape_cli.cli import drawings
from ape_cli.cli.image_mosaic import Mosaic
from ape_cli.core.errors import UsageError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import row_checks, verification
from ape_cli.data.manifest import Manifest, read_manifest
from ape_cli.reports.builtin import size_words
from ape_cli.reports.terminal import FRAME
from ape_cli.storage import image_rows
from ape_cli.storage.parquet import read_group
from ape_cli.storage.paths import StoragePath


@dataclass(frozen=True)
class Sample:
    """A row of a dataset of sequences, trees, grids or rings."""

    manifest: Manifest
    split: str
    raw: dict[str, Any]  # the row as it is stored

    def drawn(self) -> RenderableType:
        """Source and target, side by side if they fit. Raises `DataError` if the row is not valid."""
        plan = self.manifest.plan
        word = size_words(plan.task, str(plan.structure))[0]
        task = f"{plan.task} ({plan.parameters['task']})" if isinstance(plan.parameters.get("task"), str) else plan.task
        title = f"{task}, {self.split} row {self.raw['row']}, {word} {self.raw['size']}"
        if self.raw["op"] is not None:
            title += f", {self.raw['op']}"
        return Pair(title, self._side("source"), self._side("target"))

    def _side(self, side: str) -> RenderableType:
        """The source or the target, drawn as its structure."""
        names = [self.manifest.vocabulary[i] for i in self.raw[f"{side}_ids"]]
        plan = self.manifest.plan
        order = plan.source_order if side == "source" and plan.source_order else plan.order
        binarised = bool(plan.parameters.get("binarise"))
        return drawings.drawn(plan.structure, self.raw[f"{side}_positions"], names, order=order, binarised=binarised)


@dataclass(frozen=True)
class Pair:
    """A source and a target: a table if both are narrow enough, else one below the other."""

    title: str
    source: RenderableType
    target: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or title, source and target."""
        sides = {"source": self.source, "target": self.target}
        widths = [Measurement.get(console, options, side).maximum for side in sides.values()]
        if sum(widths) + 2 * FRAME + 1 <= options.max_width:
            grid = Table(
                title=Text(self.title), title_justify="left", min_width=min(len(self.title), options.max_width)
            )
            for name in sides:
                grid.add_column(name, overflow="fold")
            grid.add_row(*sides.values())
            yield grid
            return
        yield Text(self.title, style="table.title")
        for name, side in sides.items():
            yield Text()
            yield Text(name, style="bold")
            yield side


@dataclass(frozen=True)
class PictureSample:
    """A row of a dataset of images."""

    manifest: Manifest
    split: str
    raw: dict[str, Any]  # the row; its image as nested lists of pixels, [H, W, C]

    def drawn(self) -> RenderableType:
        """A table with the image, and its label in the title."""
        plan, raw = self.manifest.plan, self.raw
        assert plan.image is not None
        height, width, channels = plan.image
        title = f"{plan.task}, {self.split} row {raw['row']}, label {raw['label']}: {raw['class']}"
        grid = Table(title=Text(title), title_justify="left", min_width=len(title))
        grid.add_column(f"{height} x {width} pixels, {'gray' if channels == 1 else 'RGB'}")
        grid.add_row(Mosaic(np.array(raw["pixels"], dtype=np.uint8)))
        return grid


def read(folder: StoragePath, split: str, row: int) -> Sample | PictureSample:
    """Read one row; only its row group is read.

    Raises `DataError` if the dataset is damaged, and `UsageError` if there is no such split or row.
    """
    pick("split", split, SPLITS)
    manifest = read_manifest(folder)
    count = manifest.plan.rows[split]
    if not 0 <= row < count:
        raise UsageError(
            "no such row", got=row, allowed=f"{count} rows in {split}, from 0", fix="choose one of these rows"
        )
    left = row
    for shard in manifest.shards[split]:
        if left >= shard.rows:
            left -= shard.rows
            continue
        verification.check_shard(folder, shard)
        file = verification.open_shard(folder, manifest, shard)
        for i in range(file.num_row_groups):
            here = file.metadata.row_group(i).num_rows
            if left < here:
                return _sample(manifest, split, read_group(file, i, shard.file).slice(left, 1).combine_chunks())
            left -= here
    raise AssertionError("the manifest's rows are in its shards")


def _sample(manifest: Manifest, split: str, found: pa.Table) -> Sample | PictureSample:
    """The sample in a table with one row. Raises `DataError` if it is not valid."""
    plan, names = manifest.plan, manifest.vocabulary
    if plan.image is None:
        row_checks.check_rows(found, plan.structure, len(names), tagged=bool(plan.tagged))
        return Sample(manifest, split, found.to_pylist()[0])
    raw = found.to_pylist()[0]
    label = int(image_rows.labels(found, len(names))[0])
    pixels = image_rows.pixels(found, plan.image)[0].tolist()
    numbers = {"row": raw["row"], "label": label, "class": names[label], "size": raw["size"]}
    return PictureSample(manifest, split, numbers | {"pixels": pixels})
