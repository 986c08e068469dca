"""The overlap of splits: counted from the rows as they are stored, whatever wrote the shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ape_cli import tasks
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, overlap
from ape_cli.data.generation import generate
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import Manifest, read_manifest
from ape_cli.storage import image_rows
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.tasks import BaseTask, images
from tests.conftest import ape
from tests.data.test_generation import snapshot

ROWS = {"train": 40, "validation": 10, "test": 12}  # of each size, if a task has sizes
FEW = tasks.make("copy", sizes="1-2,9", vocabulary=2)


def written(task: BaseTask, folder: Path, rows: Mapping[str, int] = ROWS, shard_rows: int = 64) -> Any:
    return generate(task, generation.plan(task, seed=7, rows=task.rows(rows, 7), shard_rows=shard_rows), folder)


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


def of_before(folder: Path) -> Manifest:
    """Turns the manifest into one of an earlier version, which had no overlap."""
    path = folder / "manifest.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in fields.items() if not name.startswith("overlap")}))
    return read_manifest(folder)


def test_neither_shards_nor_interruptions_nor_old_manifests_matter(tmp_path: Path) -> None:
    """The sources of shards that are there already are read from them."""
    whole = written(FEW, tmp_path / "whole", shard_rows=5000)
    assert overlap.of_dataset(tmp_path, whole.manifest) == counted(tmp_path / "whole")
    assert whole.manifest.overlap_sizes == [1, 2]
    assert overlap.of_dataset(tmp_path / "whole", of_before(tmp_path / "whole")) == counted(tmp_path / "whole")
    written(FEW, tmp_path / "cut")
    before = snapshot(tmp_path / "cut")
    for name in (next((tmp_path / "cut" / "data").glob("train-00000-*")), tmp_path / "cut" / "manifest.json"):
        name.unlink()
        written(FEW, tmp_path / "cut")
        assert snapshot(tmp_path / "cut") == before
    assert of_manifest(tmp_path / "cut") == counted(tmp_path / "whole")


def test_splits_without_rows(tmp_path: Path) -> None:
    for number, empty in enumerate((("train",), ("validation",), ("test", "validation"))):
        folder = tmp_path / str(number)
        written(FEW, folder, ROWS | dict.fromkeys(empty, 0))
        assert of_manifest(folder) == counted(folder)
        assert ("Overlap" in (folder / "README.md").read_text()) == (number == 1)


@pytest.mark.parametrize("shuffled", [False, True])
def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool) -> None:
    """Images that a source has in two splits are counted, also if their pixels are shuffled."""
    rng = np.random.default_rng(1)
    pixels, labels = rng.integers(256, size=(90, 3, 3, 1)).astype(np.uint8), rng.integers(2, size=90)
    found = ImageSource(
        "noise",
        ["a", "b"],
        {"train": LabelledImages(pixels[:60], labels[:60]), "test": LabelledImages(pixels[48:], labels[48:])},
    )
    monkeypatch.setattr(images, "open_source", lambda where, label: found)
    task = tasks.make("images", source="noise", shuffled=shuffled)
    written(task, tmp_path, {"train": 54, "validation": 6, "test": 42}, shard_rows=20)
    stored = {
        split: [image.tobytes() for image in image_rows.pixels(pq.read_table(sorted(paths)), task.image)]
        for split in SPLITS
        if (paths := (tmp_path / "data").glob(f"{split}-*"))
    }
    expected = {split: sum(image in stored["train"] for image in stored[split]) for split in ("validation", "test")}
    assert expected["test"] > 5
    assert of_manifest(tmp_path) == (expected, [])
    assert overlap.of_dataset(tmp_path, of_before(tmp_path)) == (expected, [])


WORDS = ["--sizes", "1-3", "--vocabulary", "2", "--n", "60", "--n-validation", "20", "--n-test", "20"]
TRAIN = ["train", "--scheme", "none", "--data", "copy-sizes-1-3", "--preset", "tiny", "--set", "steps=1"]


def test_gen_train_and_eval_say_it(here: Path) -> None:
    """Also for rows at other sizes and of another dataset."""
    out, err = ape("gen", "copy", *WORDS, "--json")
    folder = here / "datasets" / "copy-sizes-1-3"
    (rows, sizes), found = counted(folder), json.loads(out)
    assert (found["overlap"], found["overlap_sizes"]) == (rows, sizes) == ({"validation": 40, "test": 40}, [1, 2])
    words = "40 of 60 validation rows (66.7%) and 40 of 60 test rows (66.7%) have a source that is also in training"
    assert f"overlap: {words}; above 5% at sizes 1–2\n" in err
    assert words in (folder / "README.md").read_text()
    err = ape(*TRAIN, "--generalise", "2,9")[1]
    assert err.count(words) == 1
    assert "1,000 of 2,000 test rows (50.0%)" in err
    assert "40 of 60 validation rows (66.7%)" in ape("eval", "copy", "--split", "validation")[1]
    assert "overlap" not in ape("eval", "copy", "--split", "train")[1]
    ape("gen", "copy", *WORDS, "--seed", "5", "--out", "other")
    seen = {source for source, _ in sources(folder, "train")}
    count = sum(source in seen for source, _ in sources(here / "other", "test"))
    assert count > 0
    assert f"{count} of 60 test rows" in ape("eval", "copy", "--data", "other")[1]


def test_nothing_is_said_where_splits_are_apart(here: Path) -> None:
    err = ape("gen", "copy", "--n", "30", "--n-validation", "10", "--n-test", "10")[1]
    assert "overlap" not in err + ape(*TRAIN[:4], "copy", *TRAIN[5:])[1] + ape("eval", "copy")[1]
    assert "no validation or test row has a source" in Path("datasets/copy/README.md").read_text()


def test_another_dataset_of_a_task_may_divide_the_same_sources_otherwise(tmp_path: Path) -> None:
    """The heap indices of `list-ops`, which decide the split, depend on `arguments`, and its sources do not."""
    two, three = (tasks.make("list-ops", sizes=2, arguments=most) for most in (2, 3))
    for name, task in {"two": two, "three": three}.items():
        written(task, tmp_path / name, {"train": 4000, "validation": 1, "test": 400})
    training, data = (open_dataset(tmp_path / name) for name in ("two", "three"))
    seen = {source for source, _ in sources(tmp_path / "two", "train")}
    expected = sum(source in seen for source, _ in sources(tmp_path / "three", "test"))
    assert overlap.between(training, data, "test").rows == {"test": expected}
    assert expected > 0
