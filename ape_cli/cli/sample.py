"""Draw a sample of a dataset: source and target as words, trees, grids or rings, or an image with its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawn

from ape_cli.cli.image_mosaic import Mosaic
from ape_cli.core.errors import DataError, UsageError, pick
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import row_checks, verification
from ape_cli.data.manifest import Manifest, read_manifest
from ape_cli.storage import image_rows
from ape_cli.storage.parquet import read_group
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Cyclic, Grid, Seq, Tree


@dataclass(frozen=True)
class Sample:
    """A row of a dataset of sequences, trees, grids or rings."""

    manifest: Manifest
    split: str
    raw: dict[str, Any]  # the row as it is stored

    def drawn(self) -> RenderableType:
        """A table with source and target side by side. Raises `DataError` if the row is not valid."""
        plan = self.manifest.plan
        title = f"{plan.task}, {self.split} row {self.raw['row']}, size {self.raw['size']}"
        if self.raw["op"] is not None:
            title += f", {self.raw['op']}"
        grid = Table(title=Text(title), title_justify="left", min_width=len(title))
        grid.add_column("source", overflow="fold")
        grid.add_column("target", overflow="fold")
        grid.add_row(*(self._side(side) for side in ("source", "target")))
        return grid

    def _side(self, side: str) -> RenderableType:
        """The source or the target, drawn as its structure."""
        names = [self.manifest.vocabulary[i] for i in self.raw[f"{side}_ids"]]
        positions = self.raw[f"{side}_positions"]
        linear = Text(("" if all(len(n) == 1 for n in names) else " ").join(names))
        plan = self.manifest.plan
        found = plan.structure
        if isinstance(found, Tree):
            sides = ["left ", "right "] if plan.parameters.get("binarise") else [""] * found.branching
            if 1 not in positions:
                raise DataError("the row is not a tree: it has no root", got=positions[:8], fix="generate it again")
            order = plan.source_order if side == "source" and plan.source_order else plan.order
            line = Text(f"in {order} order: ", style="dim") + linear
            return Group(_branch(dict(zip(positions, names, strict=True)), 1, sides, None), Text(), line)
        if found == Grid((Seq(), Seq())) and max(map(max, positions)) < len(positions):
            return _grid({(row, column): name for (row, column), name in zip(positions, names, strict=True)})
        if isinstance(found, Cyclic):
            return _ring(positions, names, found.order)
        return linear


def _branch(nodes: dict[int, str], heap: int, sides: list[str], above: Drawn | None, side: str = "") -> Drawn:
    """The subtree at a heap index, with the first child first. `sides`: labels of the children of a node."""
    label = Text(side, style="dim") + Text(nodes[heap])
    tree = Drawn(label) if above is None else above.add(label)
    for child, which in enumerate(sides, len(sides) * (heap - 1) + 2):
        if child in nodes:
            _branch(nodes, child, sides, tree, which)
    return tree


def _grid(cells: dict[tuple[int, int], str]) -> Text:
    """A line of text for each row of a grid, with aligned columns."""
    wide = max(map(len, cells.values()))
    height, width = (1 + max(place[axis] for place in cells) for axis in (0, 1))
    return Text("\n".join(" ".join(cells.get((i, j), "").ljust(wide) for j in range(width)) for i in range(height)))


def _ring(places: list[int], names: list[str], order: int) -> RenderableType:
    """The ring from its origin on. Tokens before the ring, such as an offset, are on a line above it."""
    before = len(names) - order
    ring = Text("  ").join(
        Text(f"{place}:", style="dim") + Text(name) for place, name in zip(places[before:], names[before:], strict=True)
    )
    return Group(Text(" ".join(names[:before])), ring) if before else ring


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
        row_checks.check_rows(found, plan.structure, len(names))
        return Sample(manifest, split, found.to_pylist()[0])
    raw = found.to_pylist()[0]
    label = int(image_rows.labels(found, len(names))[0])
    pixels = image_rows.pixels(found, plan.image)[0].tolist()
    numbers = {"row": raw["row"], "label": label, "class": names[label], "size": raw["size"]}
    return PictureSample(manifest, split, numbers | {"pixels": pixels})
