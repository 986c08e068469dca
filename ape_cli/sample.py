"""One sample of a dataset, as a person reads it: a word, or a drawn tree, source and target side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ape_cli import schema
from ape_cli.errors import UsageError, pick
from ape_cli.schema import Manifest


@dataclass(frozen=True)
class Sample:
    manifest: Manifest
    split: str
    raw: dict[str, Any]  # the row as it is stored

    def drawn(self) -> RenderableType:
        plan = self.manifest.plan
        title = f"{plan.task}, {self.split} row {self.raw['row']}, size {self.raw['size']}"
        if self.raw["op"] is not None:
            title += f", {self.raw['op']}"
        grid = Table(title=Text(title), title_justify="left")
        grid.add_column("source", overflow="fold")
        grid.add_column("target", overflow="fold")
        grid.add_row(*(self._side(side) for side in ("source", "target")))
        return grid

    def _side(self, side: str) -> RenderableType:
        names = [self.manifest.vocabulary[i] for i in self.raw[f"{side}_ids"]]
        linear = Text(("" if all(len(n) == 1 for n in names) else " ").join(names))
        if self.manifest.plan.structure == "seq":
            return linear
        nodes = dict(zip(self.raw[f"{side}_positions"], names, strict=True))
        order = Text(f"in {self.manifest.plan.order} order: ", style="dim") + linear
        return Group(_branch(nodes, 1, None), Text(), order)


def _branch(nodes: dict[int, str], heap: int, above: Tree | None) -> Tree:
    """The subtree at a heap index: left child first."""
    label = Text(nodes[heap])
    tree = Tree(label) if above is None else above.add(label)
    for child in (2 * heap, 2 * heap + 1):
        if child in nodes:
            _branch(nodes, child, tree)
    return tree


def read(folder: Path, split: str, row: int) -> Sample:
    """One row, read from its row group alone. Raises `DataError` or `UsageError`."""
    pick("split", split, schema.SPLITS)
    manifest = schema.read_manifest(folder)
    count = manifest.plan.rows[split]
    if not 0 <= row < count:
        raise UsageError("no such row", got=row, allowed=f"{count} rows in {split}, from 0", fix="choose one")
    left = row
    for shard in manifest.shards[split]:
        if left >= shard.rows:
            left -= shard.rows
            continue
        schema.check_shard(folder, shard)
        file = schema.read_shard(folder / shard.file)
        for i in range(file.num_row_groups):
            here = file.metadata.row_group(i).num_rows
            if left < here:
                return Sample(manifest, split, file.read_row_group(i).slice(left, 1).to_pylist()[0])
            left -= here
    raise AssertionError("the manifest's rows are in its shards")
