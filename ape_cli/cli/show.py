"""`ape show`: draw a sample of a dataset: source and target, or an image with its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli.console import draw, print_json
from ape_cli.cli.options import Dataset, DatasetsFolder, Json
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:  # pyarrow is imported by the command when it runs
    import pyarrow as pa

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
        print_json(values)
        return
    from ape_cli.cli import drawings

    draw((drawings.pair if manifest.plan.image is None else drawings.labelled_image)(manifest, split, values))


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
