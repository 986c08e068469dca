"""Images as a dataset: the images that are held out, their order, what is counted, and errors about damage.

Sources are made by hand: an image is a few numbers, and its bytes say which one it is.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import DatasetPlan, read_manifest
from ape_cli.storage import image_rows
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.tasks import images
from ape_cli.tasks.images import Images
from tests.conftest import ape

CLASSES = ["cat", "dog", "owl"]


def noise(count: int, seed: int, shape: tuple[int, int, int] = (4, 3, 3)) -> LabelledImages:
    """Images of which no two are equal."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(256, size=(count, *shape), dtype=np.uint8)
    return LabelledImages(pixels, rng.integers(len(CLASSES), size=count))


def repeated(count: int, seed: int) -> LabelledImages:
    """Images that occur one to seven times each, in any order, with separate labels."""
    rng = np.random.default_rng(seed)
    which = rng.permutation(np.repeat(np.arange(count), rng.integers(1, 8, size=count)))
    return LabelledImages(noise(count, seed).pixels[which], rng.integers(len(CLASSES), size=which.size))


def source(train: LabelledImages, classes: list[str] | None = None, **splits: LabelledImages) -> ImageSource:
    return ImageSource("hand", classes or CLASSES, {"train": train, **splits})


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Open a source in memory as the task `Images`, also in the code that is tested."""

    def of(found: ImageSource, **options: Any) -> Images:
        monkeypatch.setattr("ape_cli.tasks.images.open_source", lambda where, label: found)
        return tasks.make("images", **{"source": "anywhere", **options})

    return of


def stored(task: Images, seed: int = 1) -> dict[str, tuple[np.ndarray, list[int]]]:
    """The pixels and labels of each split, as in its table."""
    found = {}
    for split, count in task.available(seed).items():
        table = task.sample(rows=range(count), split=split, seed=seed)
        found[split] = image_rows.pixels(table, task.image), table["label"].to_pylist()
    return found


def bag(*parts: tuple[np.ndarray, Any]) -> Counter[tuple[bytes, int]]:
    """Images with their labels, without an order."""
    found = (zip((p.tobytes() for p in pixels), map(int, labels), strict=True) for pixels, labels in parts)
    return Counter(pair for part in found for pair in part)


def plan(task: Images, shard_rows: int = 1000, seed: int = 1, **rows: int) -> DatasetPlan:
    return generation.plan(task, seed=seed, rows=dict.fromkeys(SPLITS) | rows, shard_rows=shard_rows)


# Held-out images


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"train": 72, "validation": 8, "test": 20}),  # a fifth of 100, a tenth of 80
        ({"test": 30}, {"train": 90, "validation": 10, "test": 30}),
        ({"validation": 7}, {"train": 80, "validation": 7, "test": 20}),
        ({"validation": 7, "test": 30}, {"train": 100, "validation": 7, "test": 30}),
    ],
)
def test_splits_that_a_source_lacks_are_held_out_of_its_training_images(
    given: Any, own: dict[str, int], expected: dict[str, int]
) -> None:
    """No image is lost or duplicated, and splits that the source has are kept."""
    parts = {name: noise(count, seed) for seed, (name, count) in enumerate(own.items(), 10)}
    whole = noise(100, 1)
    task = given(source(whole, **parts))
    found = stored(task)
    assert {split: len(labels) for split, (_, labels) in found.items()} == task.available(1) == expected
    for split, part in parts.items():
        assert bag(found[split]) == bag((part.pixels, part.labels))
    held = [found[split] for split in SPLITS if split not in parts]
    assert bag(*held) == bag((whole.pixels, whole.labels))
    noted = " ".join(task.notes(1)).split(":")[0]
    assert noted == " and ".join(split for split in ("validation", "test") if split not in parts)


@pytest.mark.parametrize("seed", range(3))
def test_training_never_sees_what_is_held_out(given: Any, seed: int) -> None:
    """Splits are separate by pixels, although every image occurs several times in the source."""
    whole = repeated(40, seed)
    found = stored(given(source(whole)), seed)
    seen = {split: {p.tobytes() for p in pixels} for split, (pixels, _) in found.items()}
    assert sum(map(len, seen.values())) == len(set().union(*seen.values()))
    assert bag(*found.values()) == bag((whole.pixels, whole.labels))
    total = len(whole.labels)
    assert total // 5 - 7 < len(found["test"][1]) <= total // 5  # at most seven are equal


@pytest.mark.parametrize(("count", "test", "validation"), [(1, 0, 0), (2, 0, 0), (9, 1, 0), (12, 2, 1)])
def test_few_images(given: Any, here: Path, count: int, test: int, validation: int) -> None:
    given(source(noise(count, 0), ["the only one"] * 3))
    _, err = ape("gen", "images", "--source", "x")
    none = [split for split, rows in (("validation", validation), ("test", test)) if not rows]
    assert (f"no rows of {' and '.join(none)}: the source has too few different rows" in err) == bool(none)
    rows = read_manifest(Path("datasets/images-hand")).plan.rows
    assert rows == {"train": count - test - validation, "validation": validation, "test": test}
    # one image many times is all trained on
    alike = LabelledImages(np.repeat(noise(1, 0).pixels, 50, axis=0), np.zeros(50, dtype=np.int64))
    assert given(source(alike)).available(1) == {"train": 50, "validation": 0, "test": 0}


def test_a_seed_decides_what_is_held_out(given: Any) -> None:
    task = given(source(noise(100, 1)))
    first, again, other = (bag(stored(task, seed)["test"]) for seed in (1, 1, 2))
    assert first == again
    assert len(first & other) < 15  # 4 of 20 are expected by chance


def test_order_and_format_of_a_source_do_not_matter(given: Any, tmp_path: Path) -> None:
    """A source with its rows in another order, with another memory layout or in folders of other names gives the same
    dataset.
    """
    whole, own = repeated(60, 1), noise(20, 2)
    task = given(source(whole, test=own))
    first = generation.generate(task, plan(task), tmp_path / "a").manifest
    order = np.random.default_rng(3).permutation(len(whole.labels))
    mixed = LabelledImages(np.asfortranarray(whole.pixels[order]), whole.labels[order].astype(np.int64))
    again = given(source(mixed, test=LabelledImages(own.pixels[::-1], own.labels[::-1])), source="elsewhere")
    second = generation.generate(again, plan(again), tmp_path / "b").manifest
    assert second == first
    assert second.fingerprint == first.fingerprint
    assert "elsewhere" not in (tmp_path / "b" / "manifest.json").read_text()
    assert set(second.plan.parameters) == {"source", "sha256"}


def test_a_source_s_hash_sees_pixels_labels_classes_and_splits(given: Any) -> None:
    whole, own = noise(30, 1), noise(9, 2)
    changed = whole.pixels.copy()
    changed[4, 0, 0, 0] ^= 1
    labels = (whole.labels + (np.arange(30) == 7)) % 3
    flat = LabelledImages(whole.pixels.reshape(30, 3, 4, 3), whole.labels)
    found = [
        source(whole),
        source(LabelledImages(changed, whole.labels)),
        source(LabelledImages(whole.pixels, labels)),
        source(whole, ["cat", "dog", "bat"]),
        source(whole, test=own),
        source(whole, validation=own),
        source(flat),
    ]
    assert len({given(one).parameters["sha256"] for one in found}) == len(found)


# Moments and shuffling


def test_moments_are_of_the_training_images_alone(given: Any) -> None:
    """Moments are those of the training images that are used. A test split of white images changes nothing."""
    white = LabelledImages(np.full((40, 4, 3, 3), 255, dtype=np.uint8), np.zeros(40, dtype=np.int64))
    task = given(source(noise(100, 1), test=white, validation=white))
    pixels = stored(task)["train"][0] / 255
    for rows in (100, 30):
        found = task.moments(rows, 1)
        np.testing.assert_allclose(found.mean, pixels[:rows].mean((0, 1, 2)), rtol=1e-12)
        np.testing.assert_allclose(found.std, pixels[:rows].std((0, 1, 2)), rtol=1e-12)


def test_moments_by_hand(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half 0 and half 255: mean 1/2, deviation 1/2. All 51: mean 1/5 and no deviation. The same in blocks."""
    pixels = np.zeros((10, 1, 2, 3), dtype=np.uint8)
    pixels[:, :, 0, 0], pixels[..., 1] = 255, 51
    task = given(source(LabelledImages(pixels, np.zeros(10, dtype=np.int64))))
    for block in (2**22, 3):
        monkeypatch.setattr(images, "_BLOCK", block)
        found = task.moments(10, 1)
        assert found.mean == pytest.approx([0.5, 0.2, 0.0])
        assert found.std == pytest.approx([0.5, 1.0, 1.0])


def test_shuffled_moves_whole_pixels(given: Any) -> None:
    """Row r is row r of the unshuffled images with its pixels in another order, the same for all channels."""
    found = source(noise(60, 1, (5, 4, 3)), test=repeated(8, 2))
    found = source(found.splits["train"])
    plain, mixed = stored(given(found)), stored(given(found, shuffled=True))
    orders = set()
    for split in SPLITS:
        assert plain[split][1] == mixed[split][1]
        for one, other in zip(plain[split][0].reshape(-1, 20, 3), mixed[split][0].reshape(-1, 20, 3), strict=True):
            places = {tuple(pixel): i for i, pixel in enumerate(one.tolist())}
            order = tuple(places[tuple(pixel)] for pixel in other.tolist())
            assert sorted(order) == list(range(20))
            orders.add(order)
    assert len(orders) == 60  # each image has its own order
    assert all(len({order[i] for order in orders}) > 12 for i in range(20))  # any pixel may be in any place


@pytest.mark.parametrize(
    ("shuffled", "fingerprint"),
    [
        (False, "adb4ba852a12a0243ea957f6c3bfab9c1616b243a8a86a4166168dcb4c80bedf"),
        (True, "bf536ab317aeac9f11f91d49400429dd150adfea88b5941d9f0941fcc83ced83"),
    ],
)
def test_datasets_that_exist_stay_what_they_are(tmp_path: Path, shuffled: bool, fingerprint: str) -> None:
    """The digits, with the content of the first release of the image task."""
    task = tasks.make("images", shuffled=shuffled)
    manifest = generation.generate(task, plan(task, seed=42), tmp_path).manifest
    assert manifest.fingerprint == fingerprint
    assert manifest.plan.rows == {"train": 1295, "validation": 143, "test": 359}


# Files


def test_fingerprint_does_not_depend_on_shards(given: Any, tmp_path: Path) -> None:
    task = given(source(noise(90, 1), test=noise(25, 2)), shuffled=True)
    whole = generation.generate(task, plan(task), tmp_path / "whole").manifest
    cut = generation.generate(task, plan(task, 10), tmp_path / "cut").manifest
    assert whole.fingerprint == cut.fingerprint
    one, other = (open_dataset(tmp_path / name).split("train").table() for name in ("whole", "cut"))
    assert one.to_pylist() == other.to_pylist()


def test_a_dataset_is_a_source_of_itself(here: Path) -> None:
    """Through Parquet and back: the same splits in the same order, with the same class names."""
    ape("gen", "images", "--out", "first")
    ape("gen", "images", "--source", "first", "--out", "second", "--shard-rows", "500")
    one, other = (read_manifest(Path(name)) for name in ("first", "second"))
    assert (one.fingerprint, one.moments, one.vocabulary) == (other.fingerprint, other.moments, other.vocabulary)


# Wrong usage


def test_images_are_a_task_whose_options_are_its_own(here: Path) -> None:
    assert [tasks.modality_of(name) for name in ("images", "copy", "not-here")] == ["image", "sequence", None]
    with pytest.warns(DeprecationWarning, match="modality_of"):
        assert tasks.kind_of("images") == "image"
    assert "No such option: --shuffled" in ape("gen", "copy", "--shuffled", code=2)[1]
    listed = {t["task"]: t for t in json.loads(ape("tasks", "--json")[0])}
    assert listed["images"]["options"] == {"source": "digits", "label": None, "shuffled": False}
    with pytest.raises(UsageError, match="split"):
        tasks.make("images").sample(rows=range(3), split="dev", seed=1)


# The card


def test_the_command_of_the_card_makes_it_again(here: Path) -> None:
    words = ["--shuffled", "--seed", "7", "--n", "40", "--n-test", "0", "--shard-rows", "9"]
    ape("gen", "images", *words, "--out", "a")
    command = re.findall(r"^ape (gen .*)$", Path("a/README.md").read_text(), flags=re.M)
    ape(*shlex.split(command[0]), "--out", "b")
    assert Path("a/manifest.json").read_bytes() == Path("b/manifest.json").read_bytes()
    assert Path("a/README.md").read_bytes() == Path("b/README.md").read_bytes()


def test_the_card_says_what_there_is(given: Any, here: Path) -> None:
    given(source(noise(100, 1), test=noise(10, 2)))
    ape("gen", "images", "--source", "secret/place", "--shuffled", "--out", "d")
    card = Path("d/README.md").read_text()
    for words in (
        "# images: hand, shuffled\n",
        "--source PATH --shuffled\n",
        "- validation: held out of",
        "4 x 3 pixels, RGB",
    ):
        assert words in card, words
    assert "secret" not in card


# Damage


def test_a_damaged_image_is_one_error(given: Any) -> None:
    table = given(source(noise(20, 1))).sample(rows=range(8), split="train", seed=1)
    values = table["image"].to_pylist()
    good = values[3]["bytes"]
    for bad in (good[:50], good[:45] + bytes([good[45] ^ 4]) + good[46:]):
        values[3] = {"bytes": bad}
        damaged = table.set_column(1, table.schema.field(1), pa.array(values, table.schema.field(1).type))
        with pytest.raises(DataError, match="the image of row 3 cannot be read"):
            image_rows.pixels(damaged, (4, 3, 3))
