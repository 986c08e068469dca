"""Batches: the inputs and labels of the model, every row once in an epoch, whatever the division into files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from ape_cli import tasks
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data import generation, loader
from ape_cli.data.batches import DecoderOnlyBatch, SequenceBatch, Share
from ape_cli.data.loader import Dataset, ImageSplit, Split, open_dataset
from ape_cli.storage import parquet
from ape_cli.storage.sequence_rows import schema
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.structure import Seq, Structure, Tree, parse_structure
from ape_cli.tasks import images
from ape_cli.tasks._rules import check_rows
from tests.conftest import write

ROWS = 53
SHARDS = (1, 7, 16, 20, ROWS)  # rows of a shard
BLOCK = 16
EARLIER = [
    [48, 51, 52, 49, 50],
    [36, 41, 47, 39, 43, 42, 38, 32, 45, 35, 37, 40],
    [46, 44, 34, 33],
    [22, 31, 18, 20, 26, 29, 24, 28, 17, 30, 23, 19],
    [16, 21, 25, 27],
    [3, 13, 10, 2, 15, 7, 1, 4, 6, 0, 8, 12],
    [9, 11, 5, 14],
]


def stored(data: Dataset, split: str = "train") -> dict[int, dict]:
    return {r["row"]: r for r in data.split(split).table().to_pylist()}


def strip(ids: torch.Tensor) -> list[int]:
    return [i for i in ids.tolist() if i != PAD]


def test_words_carry_eos_in_source_and_target(words: Dataset) -> None:
    """Source and target both have EOS, so that neither reveals the first output symbol."""
    rows = stored(words)
    for batch in words.split("train").batches(16, seed=1):
        for i, row in enumerate(batch.row):
            assert strip(batch.source_ids[i]) == [*rows[row]["source_ids"], EOS]
            assert strip(batch.labels[i]) == [*rows[row]["target_ids"], EOS]
            assert strip(batch.input_ids[i])[: int(batch.label_mask[i].sum())] == [SOS, *rows[row]["target_ids"]]


def test_grids_and_rings_carry_no_eos(grids: Dataset, rings: Dataset, trees: Dataset) -> None:
    """Nor do trees. The structure determines their end, so inputs and labels are the stored ids without EOS."""
    for data in (grids, rings, trees):
        rows = stored(data)
        for batch in data.split("train").batches(16, seed=1):
            assert (batch.label_positions is None) == (data is not trees)
            for i, row in enumerate(batch.row):
                assert strip(batch.source_ids[i]) == rows[row]["source_ids"]
                assert strip(batch.labels[i]) == rows[row]["target_ids"]
                n = len(rows[row]["target_ids"])
                assert batch.input_ids[i, :n].tolist() == [SOS, *rows[row]["target_ids"][:-1]]


def plus(first: list[int], places: list[list[int]]) -> list[list[int]]:
    return [[f + x for f, x in zip(first, place, strict=True)] for place in places]


@pytest.mark.parametrize(
    ("kind", "expression", "first", "columns"),
    [
        ("grids", None, [1, 1], [0, 1]),
        ("grids", "seq*seq", [1, 1], [0, 1]),
        ("grids", "grid(2)*seq", [1, 1, 1], [0, 1, -1]),
        ("rings", None, [1], [0]),
        ("rings", "seq*cyclic(5)", [1, 1], [-1, 0]),
        ("trees", None, [0], [0]),
        ("trees", "seq*tree(2)", [1, 0], [-1, 0]),
        ("trees", "tree(2)*cyclic(7)", [0, 1], [0, -1]),
    ],
)
def test_positions_as_any_structure_that_the_data_has(
    kind: str, expression: str | None, first: list[int], columns: list[int], request: pytest.FixtureRequest
) -> None:
    """Each coordinate is a stored one plus its `first` value. Column -1 is the index in the linearisation.

    SOS and padding have position 0.
    """
    data = request.getfixturevalue(kind)
    rows, width = stored(data), len(first)

    def expected(positions: list, length: int, sos: bool) -> list[list[int]]:
        places = [p if isinstance(p, list) else [p] for p in positions]
        read = [[i if c == -1 else place[c] for c in columns] for i, place in enumerate(places)]
        read = plus(first, read)
        read = [[0] * width, *read][:length] if sos else read
        return read + [[0] * width] * (length - len(read))

    for batch in data.split("train").batches(16, seed=1, structure=expression):
        for found, side, ids in (
            (batch.source_positions, "source", batch.source_ids),
            (batch.input_positions, "target", batch.input_ids),
        ):
            assert found.dtype == torch.int64
            assert found.shape == (*ids.shape, width) if width > 1 else found.shape == ids.shape
            for i, row in enumerate(batch.row):
                wanted = expected(rows[row][f"{side}_positions"], ids.shape[1], side == "target")
                assert found[i].reshape(-1, width).tolist() == wanted


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        *((kind, "seq") for kind in ("words", "grids", "trees")),
        ("trees", "seq*cyclic(6)"),
    ],
)
def test_what_all_rows_have_alike_is_one_row(kind: str, expression: str, request: pytest.FixtureRequest) -> None:
    data = request.getfixturevalue(kind)
    batch = next(data.split("train").batches(16, structure=expression))
    width = expression.count("*") + 1
    for found, count, start in (
        (batch.source_positions, batch.source_ids.shape[1], 1),
        (batch.input_positions, batch.input_ids.shape[1], 0),
    ):
        assert found.shape == ((1, count, width) if width > 1 else (1, count))
        assert found.reshape(count, width).tolist() == [[i] * width for i in range(start, start + count)]


@pytest.mark.parametrize(
    ("kind", "expression"),
    [("words", "tree(2)"), ("trees", "tree(3)"), ("grids", "grid(4)"), ("rings", "cyclic(6)")],
)
def test_what_the_data_does_not_have_is_refused(kind: str, expression: str, request: pytest.FixtureRequest) -> None:
    data = request.getfixturevalue(kind)
    with pytest.raises(UsageError, match="no positions of structure"):
        next(data.split("train").batches(16, structure=expression))
    with pytest.raises(UsageError, match="bad structure"):
        next(data.split("train").batches(16, structure="tree"))


def test_labels_of_trees_have_their_places(trees: Dataset, operations: Dataset, words: Dataset) -> None:
    """Label positions are the stored ones, whichever structure the positions are read as."""
    for data, expression in ((trees, None), (trees, "seq"), (operations, "seq*tree(2)")):
        rows = stored(data)
        for batch in data.split("train").batches(16, seed=1, structure=expression):
            assert batch.label_positions is not None
            assert batch.label_positions.shape == batch.labels.shape
            assert torch.equal(batch.label_positions > 0, batch.label_mask)
            for i, row in enumerate(batch.row):
                assert strip(batch.label_positions[i]) == rows[row]["target_positions"]
    assert next(words.split("train").batches(16)).label_positions is None


def rows_of(batches: Iterator[SequenceBatch]) -> list[list[int]]:
    return [batch.row.tolist() for batch in batches]


def test_every_row_once_an_epoch_in_an_order_of_seed_and_epoch(words: Dataset, trees: Dataset) -> None:
    for split in (words.split("train"), trees.split("train")):
        for batch_size in (1, 7, 32, 1000):
            epochs = [rows_of(split.batches(batch_size, *which)) for which in ((3,), (4,))]
            epochs.append(rows_of(split.batches(batch_size, 3, epoch=1)))
            for epoch in epochs:
                assert len(epoch) == split.steps(batch_size)
                assert sorted(row for batch in epoch for row in batch) == list(range(split.rows))
            assert epochs[0] == rows_of(split.batches(batch_size, 3, epoch=0))
            assert batch_size == 1000 or len({str(epoch) for epoch in epochs}) == 3


def test_a_slice_of_a_split_has_these_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "ROW_GROUP", 16)
    split = write(tmp_path / "copy", "copy", rows=(150, 1, 1)).split("train")
    assert len(split) == 150
    for rows in (slice(1), slice(7, 145), slice(-3, None), slice(9, 9), slice(999)):
        part = split[rows]
        wanted = list(range(150))[rows]
        assert len(part) == part.rows == len(wanted)
        assert part.table()["row"].to_pylist() == wanted
        for batches in (part.batches(4), part.batches(4, seed=1)):
            assert sorted(row for batch in rows_of(batches) for row in batch) == wanted
    assert split[10:40][5:-5].table()["row"].to_pylist() == list(range(15, 35))
    for wrong in (0, slice(0, 9, 2)):
        with pytest.raises(UsageError, match="only be sliced"):
            split[wrong]


def test_windows_keep_memory_bounded_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small windows an epoch still has all rows in shuffled order, and skipping batches is exact."""
    data = write(tmp_path / "copy", "copy", rows=(500, 10, 10))
    monkeypatch.setattr(loader, "ROW_GROUP", 128)
    split = data.split("train")
    batches = rows_of(split.batches(16, seed=3))
    assert len(batches) == split.steps(16)
    assert sorted(row for batch in batches for row in batch) == list(range(500))
    for skip in range(len(batches)):
        assert rows_of(split.batches(16, seed=3, skip=skip)) == batches[skip:]
    assert not split._kept  # a split of several windows keeps no rows in memory


def test_damage_is_named(tmp_path: Path) -> None:
    data = write(tmp_path / "copy", "copy")
    shard = tmp_path / "copy" / data.manifest.shards["train"][0].file
    whole = shard.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:100] + b"\0" + whole[101:]):
        shard.write_bytes(content)
        with pytest.raises(DataError, match="altered or truncated"):
            open_dataset(tmp_path / "copy").split("train")
    shard.unlink()
    with pytest.raises(DataError, match="missing"):
        open_dataset(tmp_path / "copy")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such dataset"):
        open_dataset(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"no manifest\.json"):
        open_dataset(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="an unexpected schema"):
        parquet.read_shard(tmp_path / "x.parquet")


def check(own: Structure, position: int | list[int], symbol: int = 3) -> None:
    origin = [1] * own.width if own.width > 1 else 1 - (own == Seq())
    source = [position]
    while isinstance(own, Tree) and 1 < source[0] < 2**63:  # a row of a tree has the ancestors of each node too
        source.insert(0, int(own.ancestor(source[0], 1)))
    row = {"row": 0, "source_ids": [3] * len(source), "target_ids": [symbol], "size": 1, "op": None}
    rows = [row | {"source_positions": source, "target_positions": [origin]}]
    check_rows(pa.Table.from_pylist(rows, schema=schema(own.width)), own, 5)


@pytest.mark.parametrize(
    ("expression", "position", "allowed"),
    [
        ("tree(2)", 0, "1 to"),  # the position of SOS
        ("cyclic(5)", 5, "0 to 4"),
        ("seq", 2**63 - 1, "0 to"),  # the loader adds 1 to it
        ("grid(2)", [1, 2**64 - 1], "0 to"),
        ("tree(3)*cyclic(4)", [1, 4], "0 to 3"),
    ],
)
def test_a_position_that_the_structure_does_not_have(expression: str, position: int | list[int], allowed: str) -> None:
    with pytest.raises(DataError, match=rf"source position is not one of[\s\S]*{allowed}"):
        check(parse_structure(expression), position)


def test_a_path_too_deep_is_an_error() -> None:
    """A position is not clamped. At most 62 binary steps fit into it."""
    check(Tree(2), 2**63 - 1)
    with pytest.raises(DataError, match="too deep"):
        check(Tree(2), 2**63)


def test_a_row_that_is_no_tree() -> None:
    """The nodes of another row do not count."""
    for wrong, reason in (
        ([2, 3], "one root"),
        ([1, 2, 1], "one root"),
        ([1, 2, 3, 2], "the same position"),
        ([1, 3, 5], "the parent of a node is missing"),
    ):
        lines = [
            {"source_ids": [3] * len(row), "source_positions": row, "target_ids": [3], "target_positions": [1]}
            | {"row": number, "size": 1, "op": None}
            for number, row in enumerate(([1, 2], wrong, [1]))
        ]
        part = pa.Table.from_pylist(lines, schema=schema(1))
        check_rows(part.slice(0, 1), Tree(2), 5)
        with pytest.raises(DataError, match=f"a source is not a tree: .*{reason}"):
            check_rows(part, Tree(2), 5)


def test_an_id_that_the_vocabulary_does_not_have() -> None:
    check(Seq(), 0, symbol=4)
    for symbol in (5, 0, 60_000):
        with pytest.raises(DataError, match=r"target id is not in the vocabulary[\s\S]*3 to 4"):
            check(Seq(), 0, symbol=symbol)


def test_bad_arguments(words: Dataset) -> None:
    with pytest.raises(UsageError, match="batch_size"):
        next(words.split("train").batches(0))
    with pytest.raises(UsageError, match="unknown split"):
        words.split("dev")
    with pytest.warns(DeprecationWarning, match="decoder_only"):
        batch = next(words.split("train").batches(4, joined=True))
    assert isinstance(batch, DecoderOnlyBatch)


def test_the_committed_sample_is_what_its_command_makes(tmp_path: Path) -> None:
    """This test fails if a change of schema, task or random streams makes existing datasets unusable."""
    committed = Path(__file__).parents[2] / "datasets" / "sample" / "tree-ops-breadth"
    found = open_dataset(committed)
    plan = found.manifest.plan
    made = tasks.make(plan.task, plan.order, **plan.parameters)
    again = generation.generate(made, plan, tmp_path / "again").manifest
    assert again.fingerprint == found.manifest.fingerprint
    assert again.plan == found.manifest.plan
    assert (tmp_path / "again" / "README.md").read_text() == (committed / "README.md").read_text()


# Batches do not depend on how the rows of a split are divided into files and row groups.


def written(folder: Path, task: tasks.BaseTask, shard_rows: int) -> Dataset:
    rows = {"train": ROWS, "validation": 1, "test": 1}
    generation.generate(task, generation.plan(task, seed=7, rows=rows, shard_rows=shard_rows), folder)
    return open_dataset(folder)


def epochs(split: Split | ImageSplit, share: Share = (0, 1), skip: int = 0) -> list[list[dict[str, Any]]]:
    """The batches of several epochs, shuffled and in order."""
    found = []
    for seed, epoch in ((None, 0), (3, 0), (3, 1), (4, 0)):
        batches = list(split.batches(6, seed, epoch=epoch, share=share, skip=skip))
        assert len(batches) == split.steps(6, seed, epoch) - skip
        found.append([{name: _listed(value) for name, value in vars(batch).items()} for batch in batches])
    return found


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "ROW_GROUP", BLOCK)


@pytest.mark.usefixtures("blocks")
def test_batches_do_not_depend_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on row groups, which have five rows in the last dataset. Shares of a batch are the same too."""
    task = tasks.make("tree-ops", depth_mean=3, depth_std=1)
    data = [written(tmp_path / str(rows), task, rows) for rows in SHARDS]
    monkeypatch.setattr(generation, "_GROUP_TOKENS", 5 * (task.mean_tokens + task.mean_target_tokens))
    data.append(written(tmp_path / "small groups", task, ROWS))
    splits = [each.split("train") for each in data]
    assert len({each.fingerprint for each in data}) == 1
    whole = epochs(splits[0])
    assert all(sorted(row for batch in epoch for row in batch["row"]) == list(range(ROWS)) for epoch in whole)
    assert len({str(epoch) for epoch in whole}) == len(whole)
    for split in splits[1:]:
        assert epochs(split) == whole
        assert epochs(split, skip=4) == [epoch[4:] for epoch in whole]
        assert split.table() == splits[0].table()
    for share in ((0, 3), (2, 3)):
        first, *others = (epochs(split, share) for split in splits)
        assert all(other == first for other in others)


@pytest.mark.usefixtures("blocks")
def test_the_order_of_an_epoch_is_that_of_earlier_versions(tmp_path: Path) -> None:
    """Rows of each batch, written down when an epoch followed the row groups: of full groups but for the last one."""
    split = written(tmp_path, tasks.make("copy", length_mean=6, length_std=2), BLOCK).split("train")
    assert [batch.row.tolist() for batch in split.batches(12, 3)] == EARLIER


@pytest.mark.usefixtures("blocks")
def test_batches_of_images_do_not_depend_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their windows have up to 37 rows, and so one or two blocks of 16."""
    rng = np.random.default_rng(5)
    whole = LabelledImages(
        rng.integers(256, size=(ROWS + 30, 2, 3, 1)).astype(np.uint8), rng.integers(3, size=ROWS + 30)
    )
    found = ImageSource("noise", ["a", "b", "c"], {"train": whole})
    monkeypatch.setattr(images, "open_source", lambda where, label: found)
    monkeypatch.setattr(loader, "_IMAGE_WINDOW", 37 * 6)
    task = tasks.make("images", source="noise")
    first, *others = (epochs(written(tmp_path / str(rows), task, rows).split("train")) for rows in SHARDS)
    assert all(other == first for other in others)
    assert sorted(row for batch in first[1] for row in batch["row"]) == list(range(ROWS))
