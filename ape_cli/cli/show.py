"""`ape show`: draw a sample of a dataset: source and target, or an image with its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli.console import draw, print_json
from ape_cli.cli.options import Dataset, DatasetsFolder, Json
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:  # imported by the command when it runs
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
    """The manifest, and one row as `--json` prints it. Only its shard is read.

    Raises `DataError` if the dataset is damaged, and `UsageError` if there is no such split or row.
    """
    from ape_cli.core.vocabulary import SPLITS
    from ape_cli.data.manifest import open_shard, read_manifest
    from ape_cli.storage import image_rows

    manifest = read_manifest(folder)
    count, shards = manifest.plan.rows[pick("split", split, SPLITS)], iter(manifest.shards[split])
    if not 0 <= row < count:
        allowed = f"{count} rows in {split}, from 0"
        raise UsageError("no such row", got=row, allowed=allowed, fix="choose one of these rows")
    left, shard = row, next(shards)
    while left >= shard.rows:
        left, shard = left - shard.rows, next(shards)
    table = open_shard(folder, manifest.plan, shard).read().slice(left, 1).combine_chunks()
    values: dict[str, Any] = table.to_pylist()[0]
    if (image := manifest.plan.image) is not None:
        names = {"row": values["row"], "label": values["label"], "class": manifest.vocabulary[values["label"]]}
        values = names | {"size": values["size"], "pixels": image_rows.pixels(table, image)[0].tolist()}
    return manifest, values
