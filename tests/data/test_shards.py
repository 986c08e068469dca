"""The files of a dataset: their schema, fingerprint, manifest and card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError
from ape_cli.data.generation import generate
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import read_manifest
from ape_cli.storage import sequence_rows
from tests.data.test_generation import plan, snapshot


def test_layout_is_the_contract(tmp_path: Path, task: Any) -> None:
    outcome = generate(task, plan(task), tmp_path)
    names = set(snapshot(tmp_path))
    train = {f"data/train-{i:05d}-of-00004.parquet" for i in range(4)}
    assert names == {"manifest.json", "README.md", "data/validation-00000-of-00001.parquet",
                     "data/test-00000-of-00001.parquet", *train}  # fmt: skip
    assert outcome.written == 420
    manifest = read_manifest(tmp_path)
    assert manifest.vocabulary == task.id_names
    assert [s.rows for s in manifest.shards["train"]] == [100, 100, 100, 50]
    card = (tmp_path / "README.md").read_text()
    assert "split: validation\n    path: data/validation-*.parquet" in card
    read = pl.read_parquet(tmp_path / "data" / "train-*.parquet")
    assert read["row"].to_list() == list(range(350))
    file = pq.ParquetFile(tmp_path / "data" / "train-00000-of-00004.parquet")
    ids, positions = "list<element: uint16 not null>", "list<element: uint64 not null>"
    types = {"row": "uint64", "source_ids": ids, "source_positions": positions, "target_ids": ids}
    types |= {
        "target_positions": positions,
        "size": "uint16",
        "op": "dictionary<values=string, indices=int32, ordered=0>",
    }
    assert {field.name: str(field.type) for field in file.schema_arrow} == types


def test_positions_of_several_coordinates_are_version_2(tmp_path: Path) -> None:
    """Positions are lists of pairs with the encoding of all lists. pyarrow and polars read the same rows."""
    task = tasks.make("grid-rotate", side_mean=4, side_std=1)
    manifest = generate(task, plan(task), tmp_path).manifest
    assert (manifest.schema_version, manifest.plan.structure.expression) == (2, "grid(2)")
    assert json.loads((tmp_path / "manifest.json").read_text())["schema_version"] == 2
    file = pq.ParquetFile(tmp_path / "data" / "train-00000-of-00004.parquet")
    types = {f.name: str(f.type) for f in file.schema_arrow}
    pair = "list<element: fixed_size_list<element: uint64 not null>[2] not null>"
    assert types["source_positions"] == types["target_positions"] == pair
    for i in range(file.metadata.num_columns):
        column = file.metadata.row_group(0).column(i)
        assert column.compression == "ZSTD"
        assert ("BYTE_STREAM_SPLIT" in column.encodings) == (column.path_in_schema != "op"), column.path_in_schema
        assert ("RLE_DICTIONARY" in column.encodings) == (column.path_in_schema == "op"), column.path_in_schema
    expected = task.sample(rows=range(350), split="train", seed=7).to_pylist()
    assert pl.read_parquet(tmp_path / "data" / "train-*.parquet").to_dicts() == expected
    assert pq.read_table(tmp_path / "data" / "train-00001-of-00004.parquet").to_pylist() == expected[100:200]


def test_manifests_that_exist_stay_what_they_are(tmp_path: Path) -> None:
    """Manifests of sequence tasks are unchanged byte for byte, and contain no fields of image datasets."""
    generate(tasks.make("grid-copy", side_mean=3), plan(tasks.make("grid-copy", side_mean=3)), tmp_path)
    sample = Path(__file__).parents[2] / "datasets" / "sample" / "tree-ops-breadth"
    for folder, version in ((sample, 1), (tmp_path, 2)):
        text = (folder / "manifest.json").read_text()
        text = text[: text.index(',\n  "sha256": ')] + "\n}\n" if folder == sample else text  # of the file, formerly
        manifest = read_manifest(folder)
        assert manifest.model_dump_json(indent=2) + "\n" == text
        assert manifest.schema_version == version
        assert not {"image", "moments"} & {*json.loads(text), *json.loads(text)["plan"]}


def test_the_card_names_splits_with_rows(tmp_path: Path, task: Any) -> None:
    """`load_dataset` takes a split without rows for an error."""
    generate(task, plan(task, train=5, validation=0), tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "split: train" in card
    assert "split: validation" not in card


def test_the_card_says_what_positions_are(tmp_path: Path) -> None:
    for name, options, says in [
        ("copy", {"length_mean": 5, "length_std": 0}, "steps from 0"),
        ("c3", {"depth_mean": 2, "branching": 3}, "children of i: 3(i-1)+2 to 3(i-1)+4)"),
        (
            "c3",
            {"depth_mean": 2, "branching": 3, "binarise": True},
            "the left child is the first child, the right child the next sibling",
        ),
        ("ring-shift", {"ring": 5}, "places 0 to 4 of a ring"),
    ]:
        task = tasks.make(name, **options)
        folder = tmp_path / task.structure / name / str(len(options))
        generate(task, plan(task, train=5), folder)
        card = (folder / "README.md").read_text()
        assert says in card
        assert ("--binarise" in card) == ("binarise" in options)


def test_fingerprint_sees_every_column_and_coordinate(task: Any) -> None:
    table = task.sample(rows=range(64), split="train", seed=1)
    before = sequence_rows.content(table)
    for i, name in enumerate(table.column_names):
        values = table[name].to_pylist()
        old = values[5]
        if name == "op":
            values[5] = "no-op" if old != "no-op" else "extract"
        else:
            values[5] = old + 1 if isinstance(old, int) else [*old[:-1], old[-1] + 1]
        field = table.schema.field(name)
        if name == "op":
            names = task.ops
            column = pa.DictionaryArray.from_arrays(pa.array([names.index(v) for v in values], pa.int32()), names)
        else:
            column = pa.array(values, field.type)
        assert sequence_rows.content(table.set_column(i, field, column)) != before, name
    order = np.random.default_rng(0).permutation(64)
    assert sequence_rows.content(table.take(order)) == before  # a sum over rows, so order does not matter
    table = tasks.make("grid-copy", side_mean=4, side_std=1).sample(rows=range(64), split="train", seed=1)
    found = {sequence_rows.content(table)}
    for change in (lambda r, c: [r + 1, c], lambda r, c: [r, c + 1], lambda r, c: [c, r]):
        values = table["target_positions"].to_pylist()
        values[5] = [change(*position) for position in values[5]]
        field = table.schema.field("target_positions")
        found.add(sequence_rows.content(table.set_column(4, field, pa.array(values, field.type))))
    assert len(found) == 4


def test_a_damaged_manifest_is_explained(tmp_path: Path, task: Any) -> None:
    generate(task, plan(task), tmp_path)
    path = tmp_path / "manifest.json"
    text = path.read_text()
    good = json.loads(text)
    for content, message in [
        ("{", "was altered"),
        (json.dumps(good | {"schema_version": 3}), "schema_version: not 1"),
        (json.dumps(good | {"schema_version": 99}), r"written by another version of ape\n  got: +schema_version"),
        (text.replace("data/train-00000", "../train-00000"), "not those of the plan"),
        (json.dumps(good | {"vocabulary": ["a", "b", "c", "d"]}), "the fingerprint is not that"),
        (json.dumps(good | {"plan": good["plan"] | {"structure": "(" * 5000}}), r"plan.structure.*bad structure"),
    ]:
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            read_manifest(tmp_path)
    path.write_text(json.dumps(good | {"plan": good["plan"] | {"seed": 8}}))
    with pytest.raises(DataError, match=r"data/train-00000-of-00004\.parquet was generated by another plan"):
        open_dataset(tmp_path).split("train")
