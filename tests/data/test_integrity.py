"""Changed files of a dataset: each is refused, also if the digests were computed again for the changed file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import DataError
from ape_cli.data import manifest
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.storage import files, parquet
from tests.conftest import ape
from tests.registered import edit


def copied(data: Dataset, tmp_path: Path) -> Path:
    return shutil.copytree(str(data.folder), tmp_path / "d")


def changed(folder: Path, change: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> None:
    """Changes the first shard of the training split, and computes its SHA-256 and the manifest's digest again."""
    path = folder / "data" / "train-00000-of-00002.parquet"
    table = change(pq.read_table(path))
    with parquet.writer(path, schema) as writer:
        writer.write_table(table)

    def known(fields: dict[str, Any]) -> None:
        fields["shards"]["train"][0]["sha256"] = files.sha256(path)

    edit(folder / "manifest.json", known)


def put(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def test_every_changed_byte_of_a_manifest_is_noticed(words: Dataset, tmp_path: Path) -> None:
    """If the name of the digest is changed, the file has another field. If it is not noticed, nothing else changed."""
    folder = copied(words, tmp_path)
    before = manifest.read_manifest(folder)
    path = folder / "manifest.json"
    whole = path.read_bytes()
    chosen = random.Random(1)
    for place in [*chosen.sample(range(len(whole)), 200), *range(len(whole) - 90, len(whole))]:
        other = bytearray(whole)
        other[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(other)
        try:
            after = manifest.read_manifest(folder)
        except DataError:
            continue
        assert after == before


def test_fewer_rows_than_the_manifest_says(words: Dataset, tmp_path: Path) -> None:
    folder = copied(words, tmp_path)
    changed(folder, lambda table: table.slice(0, 10), words.plan.shard)
    with pytest.raises(DataError, match=r"another number of rows[\s\S]*got: +10\n +allowed: 64"):
        open_dataset(folder).split("train")
    for row in ("5", "63"):
        assert "another number of rows" in ape("show", str(folder), "--row", row, code=1)[1]


@pytest.mark.parametrize("seed", [-5, 2**63, 10**30])
def test_a_seed_that_no_dataset_has(words: Dataset, tmp_path: Path, seed: int) -> None:
    folder = copied(words, tmp_path)
    edit(folder / "manifest.json", lambda fields: fields["plan"].update(seed=seed))
    with pytest.raises(DataError, match=r"plan\.seed"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("source_ids", [65_535] * 9, "a source id is not in the vocabulary"),
        ("source_ids", [3] * 30, "not each source id has a position"),
        ("target_positions", [0], "not each target id has a position"),
    ],
)
def test_rows_that_cannot_be_although_every_digest_is_right(
    words: Dataset, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    folder = copied(words, tmp_path)

    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[7] = value
        return put(table, name, values)

    changed(folder, change, words.plan.shard)
    assert message in ape("verify", "--data", str(folder), code=1)[1]
    with pytest.raises(DataError, match=message):
        list(open_dataset(folder).split("train").batches(8, seed=1))
    assert message in ape("show", str(folder), "--row", "7", code=1)[1]


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", ".hidden", "copy\x1b[2J", ""])
def test_the_name_of_a_task_cannot_leave_its_folder(words: Dataset, tmp_path: Path, name: str) -> None:
    """The task is outside the fingerprint, and becomes a part of the name of a run."""
    folder = copied(words, tmp_path)
    edit(folder / "manifest.json", lambda fields: fields["plan"].update(task=name))
    with pytest.raises(DataError, match=r"plan.task: the task cannot be a part of a path"):
        manifest.read_manifest(folder)
    ape("train", "--data", str(folder), "--scheme", "rope", "--results", str(tmp_path / "results"), code=1)
    assert {path.name for path in tmp_path.iterdir()} == {"d"}


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_a_linked_folder_of_shards_is_not_written_into(tmp_path: Path, more: tuple[str, ...]) -> None:
    """It may be that of another dataset, whose shards would be replaced."""
    words = ("gen", "copy", "--n", "6", "--n-validation", "2", "--n-test", "2", "--length-mean", "5", "--out")
    (tmp_path / "other").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data").symlink_to("../other")
    assert "data is a symbolic link" in ape(*words, str(tmp_path / "mine"), *more, code=1)[1]
    assert list((tmp_path / "other").iterdir()) == []


def test_a_folder_whose_name_looks_like_an_address(here: Path) -> None:
    """pyarrow would take the relative path for the address of a file system."""
    ape("gen", "copy", "--n", "6", "--n-validation", "2", "--n-test", "2", "--length-mean", "5", "--out", "mem:/y")
    assert "verified" in ape("verify", "--data", "mem:/y")[0]
    settings = ("--preset", "tiny", "--set", "steps=1", "--device", "cpu", "--results", "mem:/results")
    ape("train", "--scheme", "rope", "--data", "mem:/y", *settings)
