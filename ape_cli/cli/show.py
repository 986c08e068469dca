"""`ape show`: draw a sample of a dataset: source and target, or an image with its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli.console import answer, draw
from ape_cli.cli.options import Dataset, DatasetsFolder, Json
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:  # rich, numpy and pyarrow are imported by the command when it runs
    import pyarrow as pa
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from ape_cli.data.manifest import Manifest
    from ape_cli.storage.paths import StoragePath


@command("ape show tree-rotate-depth --row 3")
def show(
    data: Dataset,
    row: Annotated[int, typer.Option(help="Row number in the split, from 0.")] = 0,
    split: Annotated[str, typer.Option(help="Split: train, validation or test.")] = "train",
    *,
    folder: DatasetsFolder,
    as_json: Json = False,
) -> None:
    """Show a sample of a dataset in readable form."""
    manifest, values = _read(existing_dataset(data, folder.datasets), split, row)
    if as_json:
        answer(values)
    elif manifest.plan.image is None:
        draw(_pair(manifest, split, values))
    else:
        draw(_image(manifest, split, values))


def _pair(manifest: Manifest, split: str, row: dict[str, Any]) -> Pair:
    """Source and target of a row. Raises `DataError` if the row is not valid."""
    from ape_cli.cli import drawings
    from ape_cli.reports.builtin import size_words

    plan = manifest.plan

    def side(name: str) -> RenderableType:
        """The source or the target, drawn as its structure."""
        names = [manifest.vocabulary[i] for i in row[f"{name}_ids"]]
        order = plan.source_order if name == "source" and plan.source_order else plan.order
        binarised = bool(plan.parameters.get("binarise"))
        return drawings.drawn(plan.structure, row[f"{name}_positions"], names, order=order, binarised=binarised)

    task = f"{plan.task} ({plan.parameters['task']})" if isinstance(plan.parameters.get("task"), str) else plan.task
    title = f"{task}, {split} row {row['row']}, {size_words(plan.task, str(plan.structure))[0]} {row['size']}"
    if row["op"] is not None:
        title += f", {row['op']}"
    return Pair(title, side("source"), side("target"))


@dataclass(frozen=True)
class Pair:
    """A source and a target: a table if both are narrow enough, else one below the other."""

    title: str
    source: RenderableType
    target: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or title, source and target."""
        from rich.measure import Measurement
        from rich.table import Table
        from rich.text import Text

        from ape_cli.reports.terminal import FRAME

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


def _image(manifest: Manifest, split: str, row: dict[str, Any]) -> RenderableType:
    """A table with the image, and its label in the title. The image of the row: nested lists, [H, W, C]."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from ape_cli.cli.drawings import Mosaic

    pixels = np.array(row["pixels"], dtype=np.uint8)
    height, width, channels = pixels.shape
    title = f"{manifest.plan.task}, {split} row {row['row']}, label {row['label']}: {row['class']}"
    table = Table(title=Text(title), title_justify="left", min_width=len(title))
    table.add_column(f"{height} x {width} pixels, {'gray' if channels == 1 else 'RGB'}")
    table.add_row(Mosaic(pixels))
    return table


def _read(folder: StoragePath, split: str, row: int) -> tuple[Manifest, dict[str, Any]]:
    """The manifest, and one row as `--json` prints it; only its row group is read.

    Raises `DataError` if the dataset is damaged, and `UsageError` if there is no such split or row.
    """
    from ape_cli.core.vocabulary import SPLITS
    from ape_cli.data.manifest import open_shard, read_manifest
    from ape_cli.storage.parquet import read_group

    pick("split", split, SPLITS)
    manifest = read_manifest(folder)
    count = manifest.plan.rows[split]
    if not 0 <= row < count:
        allowed = f"{count} rows in {split}, from 0"
        raise UsageError("no such row", got=row, allowed=allowed, fix="choose one of these rows")
    left = row
    for shard in manifest.shards[split]:
        if left >= shard.rows:
            left -= shard.rows
            continue
        file = open_shard(folder, manifest.plan, shard)
        for i in range(file.num_row_groups):
            here = file.metadata.row_group(i).num_rows
            if left < here:
                return manifest, _row(manifest, read_group(file, i, shard.file).slice(left, 1).combine_chunks())
            left -= here
    raise AssertionError("the manifest's rows are in its shards")


def _row(manifest: Manifest, table: pa.Table) -> dict[str, Any]:
    """The row of a table with one row. Raises `DataError` if its image is damaged."""
    from ape_cli.storage import image_rows

    plan, names = manifest.plan, manifest.vocabulary
    row: dict[str, Any] = table.to_pylist()[0]
    if plan.image is None:
        return row
    numbers = {"row": row["row"], "label": row["label"], "class": names[row["label"]], "size": row["size"]}
    return numbers | {"pixels": image_rows.pixels(table, plan.image)[0].tolist()}
