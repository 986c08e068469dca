"""The overlap of splits: counted from the rows as they are stored, whatever wrote the shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, overlap
from ape_cli.data.generation import GenerationResult, generate
from ape_cli.data.manifest import read_manifest
from ape_cli.storage import image_rows, sequence_rows
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.tasks import BaseTask, Tokens, images
from ape_cli.tasks.copy import Copy
from tests.conftest import ape, own_trees
from tests.data.test_generation import snapshot

ROWS = {"train": 40, "validation": 10, "test": 12}  # of each size, if a task has sizes
FEW = tasks.make("copy", sizes="1-2,9", vocabulary=2)


def written(task: BaseTask, folder: Path, rows: Mapping[str, int] = ROWS, shard_rows: int = 64, **how: Any) -> Any:
    return generate(task, generation.plan(task, seed=7, rows=task.rows(rows, 7), shard_rows=shard_rows), folder, **how)


def sources(folder: Path, split: str) -> list[tuple[Any, int]]:
    """The source and the size of each row of a split."""
    paths = sorted((folder / "data").glob(f"{split}-*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    return [(str([row["source_ids"], row["source_positions"]]), row["size"]) for row in rows]


def counted(folder: Path) -> tuple[dict[str, int], list[int]]:
    """The overlap, counted with sets, and the sizes at which it is above a twentieth of the rows of a split."""
    seen = {source for source, _ in sources(folder, "train")}
    rows, sizes = {}, set()
    for split in ("validation", "test"):
        held_out = sources(folder, split)
        rows[split] = sum(source in seen for source, _ in held_out)
        for size in {size for _, size in held_out}:
            shared = [source in seen for source, of in held_out if of == size]
            sizes |= {size} if 20 * sum(shared) > len(shared) else set()
    return rows, sorted(sizes)


def of_manifest(folder: Path) -> tuple[dict[str, int] | None, list[int] | None]:
    manifest = read_manifest(folder)
    return manifest.overlap, manifest.overlap_sizes


SMALL_SPACES: dict[str, dict[str, Any]] = {
    "copy": {"sizes": "1-2,9", "vocabulary": 2},
    "group-word": {"length_mean": 3, "length_std": 0, "group": "cyclic-2"},
    "flip-flop": {"length_mean": 6, "length_std": 1},  # tags
    "addition": {"sizes": "1"},  # its questions are written in several ways
    "tree-copy": {"depth_mean": 1, "depth_std": 0.5, "vocabulary": 2},
    "tree-ops": {"depth_mean": 2, "depth_std": 0, "vocabulary": 9},
    "tree-query": {"depth_mean": 2, "depth_std": 0, "vocabulary": 4},
    "c3": {"depth_mean": 1, "depth_std": 1},
    "grid-copy": {"side_mean": 2, "side_std": 0, "vocabulary": 2},
    "ring-shift": {"ring": 2, "vocabulary": 2},
    "quadtree-expand": {"depth_mean": 1, "depth_std": 0, "vocabulary": 2, "leaf": 1},
}


def test_the_overlap_is_that_of_the_rows(tmp_path: Path) -> None:
    """Words, trees, grids, rings, tags and products, of which most have too few sources for three splits."""
    for name, options in SMALL_SPACES.items():
        written(tasks.make(name, **options), tmp_path / name)
        assert of_manifest(tmp_path / name) == counted(tmp_path / name), name


def test_it_does_not_depend_on_shards_or_interruptions(tmp_path: Path) -> None:
    """The sources of shards that are there already are read from them."""
    whole = written(FEW, tmp_path / "whole", shard_rows=5000).manifest
    expected = whole.overlap, whole.overlap_sizes
    assert expected == counted(tmp_path / "whole")
    assert expected[1] == [1, 2]
    cut = written(FEW, tmp_path / "cut")
    assert of_manifest(tmp_path / "cut") == expected
    before = snapshot(tmp_path / "cut")
    for name in (f"data/train-00000-of-{len(cut.manifest.shards['train']):05d}.parquet", "manifest.json"):
        (tmp_path / "cut" / name).unlink()
        assert written(FEW, tmp_path / "cut").written == (64 if name.startswith("data") else 0)
        assert snapshot(tmp_path / "cut") == before


def of_before(folder: Path) -> GenerationResult:
    """Turns the manifest into one of an earlier version, which had no overlap."""
    path = folder / "manifest.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in fields.items() if not name.startswith("overlap")}))
    return GenerationResult(read_manifest(folder), folder, 0)


def test_manifests_of_before_are_counted(tmp_path: Path) -> None:
    """The remark for training is free if each row's source was one of its own split: no shard is read."""
    new = written(FEW, tmp_path / "few")
    old = of_before(tmp_path / "few")
    assert overlap.of_dataset(old) == overlap.of_dataset(new)
    assert overlap.remark(old) == overlap.remark(new) != ""
    assert written(FEW, tmp_path / "few").written == 0
    assert read_manifest(tmp_path / "few").overlap is None  # a complete dataset is left as it is
    many = tasks.make("copy")
    written(many, tmp_path / "many", {"train": 9, "validation": 1, "test": 1})
    old = of_before(tmp_path / "many")
    assert overlap.of_dataset(old).rows == {"validation": 0, "test": 0}
    for path in (tmp_path / "many" / "data").iterdir():
        path.unlink()
    assert overlap.remark(old) == ""
    with pytest.raises(DataError, match="shard is missing"):
        overlap.of_dataset(old)


def test_a_manifest_with_impossible_counts_is_refused(tmp_path: Path) -> None:
    written(FEW, tmp_path)
    fields = json.loads((tmp_path / "manifest.json").read_text())
    for wrong in ({"validation": 10**6, "test": 0}, {"test": 0}, {"validation": -1, "test": 0}):
        (tmp_path / "manifest.json").write_text(json.dumps(fields | {"overlap": wrong}))
        with pytest.raises(DataError, match="overlap"):
            read_manifest(tmp_path)


def test_splits_without_rows(tmp_path: Path) -> None:
    for number, empty in enumerate((("train",), ("validation",), ("test", "validation"))):
        folder = tmp_path / str(number)
        written(FEW, folder, ROWS | dict.fromkeys(empty, 0))
        assert of_manifest(folder) == counted(folder)
        assert ("Overlap" in (folder / "README.md").read_text()) == (number == 1)


def test_sources_are_symbols_and_positions_in_order() -> None:
    row, two = np.arange(5, dtype=np.uint64), np.arange(0, 11, 2)
    symbols, places = np.array([3, 4, 3, 4, 4, 3, 3, 4, 3, 3]), np.array([1, 2, 1, 3, 2, 1, 1, 2, 1, 2])
    side = (two, places, symbols)
    table = sequence_rows.table(row, side, side, np.arange(5), None, [])
    keys = sequence_rows.sources(table).tolist()
    assert keys[0] == keys[3]
    assert len(set(keys)) == 4


@dataclass(frozen=True, kw_only=True)
class Halved(Copy):
    """Stores only the first symbol of each word, so that all that keeps the words apart is lost."""

    def store(self, rows: Any) -> Any:
        first = rows.offsets[:-1]
        kept = Tokens(np.arange(first.size + 1), rows.position[first], rows.symbol[first])
        return kept if type(rows) is Tokens else replace(rows, **vars(kept))


def test_a_task_whose_rows_are_not_what_it_draws(tmp_path: Path) -> None:
    """Every draw has its own split, and yet nearly every stored source is in training."""
    task = Halved(vocabulary=2, length_mean=30, length_std=1)
    manifest = written(task, tmp_path).manifest
    assert not any(shard.shared for shards in manifest.shards.values() for shard in shards)
    assert of_manifest(tmp_path) == counted(tmp_path)
    assert manifest.overlap == {"validation": 10, "test": 12}


def pictures(count: int, seed: int) -> LabelledImages:
    rng = np.random.default_rng(seed)
    return LabelledImages(rng.integers(256, size=(count, 3, 3, 1)).astype(np.uint8), rng.integers(2, size=count))


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that a source has in two splits are counted if both are in the dataset, also if pixels are shuffled."""
    train, own = pictures(60, 1), pictures(30, 2)
    both = LabelledImages(np.concatenate([own.pixels, train.pixels[:12]]), np.zeros(42, dtype=np.int64))
    found = ImageSource("noise", ["a", "b"], {"train": train, "test": both})
    monkeypatch.setattr(images, "open_source", lambda where, label: found)
    counts = []
    for shuffled in (False, True):
        for rows in ({"train": 54, "validation": 6, "test": 42}, {"train": 25, "validation": 3, "test": 42}):
            task = tasks.make("images", source="noise", shuffled=shuffled)
            folder = tmp_path / f"{shuffled}{rows['train']}"
            manifest = written(task, folder, rows, shard_rows=20).manifest
            tables = {split: pq.read_table(sorted((folder / "data").glob(f"{split}-*"))) for split in SPLITS}
            pixels = {
                split: [one.tobytes() for one in image_rows.pixels(table, task.image)]
                for split, table in tables.items()
            }
            expected = {
                split: sum(one in set(pixels["train"]) for one in pixels[split]) for split in ("validation", "test")
            }
            assert (manifest.overlap, manifest.overlap_sizes) == (expected, [])
            assert overlap.of_dataset(of_before(folder)) == (expected, [])
            counts.append(expected["test"])
    assert counts[0] == counts[2] > counts[1] == counts[3] > 0


def test_own_trees_are_in_one_split(here: Path) -> None:
    own_trees(here / "trees")
    out, _ = ape("gen", "trees", "--source", "trees", "--json")
    assert json.loads(out)["overlap"] == {"validation": 0, "test": 0}


# What is said


WORDS = ["--sizes", "1-3", "--vocabulary", "2", "--n", "60", "--n-validation", "20", "--n-test", "20"]
TRAIN = ["train", "--scheme", "none", "--data", "copy-sizes-1-2-3", "--preset", "tiny", "--set", "steps=1"]


def test_gen_train_and_eval_say_it(here: Path) -> None:
    """Also for rows at other sizes and of another dataset. Manifests of before are counted."""
    out, err = ape("gen", "copy", *WORDS, "--json")
    folder = here / "datasets" / "copy-sizes-1-2-3"
    (rows, sizes), found = counted(folder), json.loads(out)
    assert (found["overlap"], found["overlap_sizes"]) == (rows, sizes) == ({"validation": 40, "test": 40}, [1, 2])
    words = (
        "40 of 60 validation rows (66.7%) and 40 of 60 test rows (66.7%) have a source that is also in training; "
        "above 5% at sizes 1–2"
    )
    assert f"overlap: {words}\n" in err
    assert words in (folder / "README.md").read_text()
    assert words in ape("gen", "copy", *WORDS)[1]
    for _ in range(2):
        assert f"overlap in copy-sizes-1-2-3: {words}\n" in ape(*TRAIN, "--dry-run")[1]
        of_before(folder)
    err = ape(*TRAIN, "--generalise", "2,9")[1]
    assert err.count(words) == 1
    assert "1,000 of 2,000 test rows (50.0%) have a source that is also in training; above 5% at size 2\n" in err
    err = ape("eval", "copy", "--split", "validation")[1]
    assert "40 of 60 validation rows (66.7%) have a source that is also in training" in err
    assert "overlap" not in ape("eval", "copy", "--split", "train")[1]
    ape("gen", "copy", *WORDS, "--seed", "5", "--out", "other")
    seen = {source for source, _ in sources(folder, "train")}
    count = sum(source in seen for source, _ in sources(here / "other", "test"))
    assert count > 0
    assert f"{count} of 60 test rows" in ape("eval", "copy", "--data", "other")[1]


def test_nothing_is_said_where_splits_are_apart(here: Path) -> None:
    words = ["--n", "30", "--n-validation", "10", "--n-test", "10"]
    out, err = ape("gen", "copy", *words, "--json")
    assert json.loads(out)["overlap"] == {"validation": 0, "test": 0}
    run = [*TRAIN[:4], "copy", *TRAIN[5:]]
    assert "overlap" not in err + ape(*run)[1] + ape("eval", "copy")[1]
    assert "no validation or test row has a source" in Path("datasets/copy/README.md").read_text()
    generated = ["--task", "copy", "--sizes", "1", "--preset", "tiny", "--set", "steps=1"]
    assert "overlap in copy-sizes-1" in ape("train", "--scheme", "none", *generated)[1]
