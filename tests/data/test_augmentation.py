"""Augmentation: operations against another implementation, by hand and by definition, and the distribution of draws."""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ape_cli.core.errors import UsageError
from ape_cli.data import augmentation
from ape_cli.data.augmentation import Operation

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("augmentation_golden.json").read_text(encoding="utf-8"))
SIGNED = {"shear-x", "shear-y", "translate-x", "translate-y", "rotate"}
SIGNED |= {"brightness", "color", "contrast", "sharpness"}
MAGNITUDES = SIGNED | {"posterize", "solarize"}


def picture(channels: int = 3, height: int = 24, width: int = 40) -> np.ndarray:
    """Returns the image that `augmentation_golden.json` describes, uint8 [H, W, C] with values 20 to 219."""
    y, x, c = np.ogrid[:height, :width, :channels]
    return ((7 * y * y + 13 * x + 3 * x * y + 50 * c) % 200 + 20).astype(np.uint8)


def operated(pixels: np.ndarray, name: str, bin: int = 0, sign: int = 1) -> np.ndarray:
    """Applies an operation to an image, uint8 [H, W, C], and returns an image of the same shape."""
    image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    return np.asarray(augmentation.operate(image, Operation(name, bin, sign))).reshape(pixels.shape)


def seeds(count: int) -> list[list[int]]:
    return [[42, 3, row] for row in range(count)]


def test_names_are_in_the_order_of_application() -> None:
    assert augmentation.parse("autoaugment, crop") == ("crop", "autoaugment")
    with pytest.raises(UsageError, match="did you mean 'flip'"):
        augmentation.parse("crop,flop")


# -- operations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN["operations"]["rgb"])
@pytest.mark.parametrize(("mode", "channels"), [("rgb", 3), ("gray", 1)])
def test_operations_of_another_implementation(mode: str, channels: int, name: str) -> None:
    """Compares every bin and both signs. `augmentation_golden.json` states the source and the known differences."""
    expected = GOLDEN["operations"][mode][name]
    assert (len(expected), len(expected[0])) == (2 if name in SIGNED else 1, 10 if name in MAGNITUDES else 1)
    for sign, row in zip((1, -1), expected, strict=False):
        for bin, digits in enumerate(row):
            found = operated(picture(channels), name, bin, sign)
            assert hashlib.sha256(found.tobytes()).hexdigest()[:12] == digits, (name, bin, sign)


def test_the_policy_of_other_implementations() -> None:
    theirs = [
        [[name, likely, bin or 0] for name, likely, bin in pair] for pair in GOLDEN["policy"]["sub_policies"]
    ]  # operations without magnitude have no bin there
    assert augmentation.POLICY == theirs
    assert len(theirs) == 25


def test_rotation_by_definition() -> None:
    """The rotation is counter-clockwise about the centre. Each pixel takes the value nearest to its origin."""
    image, degrees = picture(1, 21, 21), 20
    expected = np.full_like(image, 128)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    for y, x in itertools.product(range(-10, 11), repeat=2):
        from_x, from_y = round(cos * x - sin * y), round(sin * x + cos * y)
        if max(abs(from_x), abs(from_y)) <= 10:
            expected[y + 10, x + 10] = image[from_y + 10, from_x + 10]
    np.testing.assert_array_equal(operated(image, "rotate", 6, 1), expected)
    mirrored = operated(image[:, ::-1], "rotate", 6, 1)[:, ::-1]
    np.testing.assert_array_equal(operated(image, "rotate", 6, -1), mirrored)


# -- crop and flip ----------------------------------------------------------------------------------------------------


def where(height: int, width: int, count: int) -> np.ndarray:
    """Returns uint8 [count, H, W, 3]. Channel 0 is the row and channel 1 the column, both counted from 1."""
    y, x = np.mgrid[1 : height + 1, 1 : width + 1]
    return np.broadcast_to(np.stack([y, x, 0 * x], axis=-1).astype(np.uint8), (count, height, width, 3))


@pytest.mark.parametrize(
    ("height", "width", "down", "right"),
    [(32, 32, 4, 4), (28, 28, 4, 4), (20, 36, 2, 4), (8, 12, 1, 2), (3, 3, 1, 1)],  # halves round to even
)
def test_crops_reach_every_place_alike(height: int, width: int, down: int, right: int) -> None:
    count = 4000
    found = augmentation.apply(("crop",), where(height, width, count), seeds(count))
    places: collections.Counter[tuple[int, int]] = collections.Counter()
    for image in found:
        y, x = (int(image[height // 2, width // 2, axis]) - side // 2 - 1 for axis, side in ((0, height), (1, width)))
        places[y, x] += 1
        expected = np.zeros_like(image)  # the image moved up by y and left by x, padded with black
        rows, columns = slice(max(0, -y), height - max(0, y)), slice(max(0, -x), width - max(0, x))
        expected[rows, columns, 0] = (np.arange(height) + 1 + y)[rows, None]
        expected[rows, columns, 1] = (np.arange(width) + 1 + x)[None, columns]
        np.testing.assert_array_equal(image, expected)
    assert set(places) == set(itertools.product(range(-down, down + 1), range(-right, right + 1)))
    likely = 1 / ((2 * down + 1) * (2 * right + 1))
    assert all(within(seen, count, likely) for seen in places.values())


def test_flips_are_a_fair_coin_and_undo_themselves() -> None:
    count = 4000
    images = where(2, 3, count)
    found = augmentation.apply(("flip",), images, seeds(count))
    flipped = found[:, 0, 0, 1] == 3
    np.testing.assert_array_equal(found[flipped], images[flipped][:, :, ::-1])
    np.testing.assert_array_equal(found[~flipped], images[~flipped])
    assert within(flipped.sum(), count, 1 / 2)
    np.testing.assert_array_equal(augmentation.apply(("flip",), found, seeds(count)), images)


# -- draws ------------------------------------------------------------------------------------------------------------


def within(seen: int, count: int, likely: float) -> bool:
    """Returns whether a count is within five standard deviations of the binomial mean."""
    return bool(abs(seen - count * likely) <= 5 * math.sqrt(count * likely * (1 - likely)))


def drawn(count: int, monkeypatch: pytest.MonkeyPatch) -> list[list[Operation]]:
    """Returns the operations that `apply` chooses for each of `count` images."""
    choose, kept = augmentation.chosen, []

    def choosing(draws: np.ndarray) -> list[list[Operation]]:
        kept.extend(choose(draws))
        return [[] for _ in draws]

    monkeypatch.setattr(augmentation, "chosen", choosing)
    augmentation.apply(("autoaugment",), np.zeros((count, 1, 1, 1), np.uint8), seeds(count))
    return kept


def test_sub_policies_are_drawn_alike_for_each_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list of operations, also the empty one, is as frequent in 8000 images as the published table says."""
    count = 8000
    likely: collections.Counter[tuple[tuple[str, int], ...]] = collections.Counter()
    for pair in GOLDEN["policy"]["sub_policies"]:
        for on in itertools.product((True, False), repeat=2):
            share = math.prod(p if here else 1 - p for (_, p, _), here in zip(pair, on, strict=True))
            likely[tuple((name, bin or 0) for (name, _, bin), here in zip(pair, on, strict=True) if here)] += share / 25
    seen = collections.Counter(tuple((o.name, o.bin) for o in operations) for operations in drawn(count, monkeypatch))
    assert set(seen) <= {operations for operations, share in likely.items() if share > 0}
    assert math.isclose(sum(likely.values()), 1)
    for operations, share in likely.items():
        assert within(seen[operations], count, share), operations


def test_signs_are_fair_coins_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = drawn(8000, monkeypatch)
    for name in sorted(SIGNED - {"shear-x"}):  # the policy does not use shear-x
        signs = [o.sign for operations in lists for o in operations if o.name == name]
        assert set(signs) == {1, -1}
        assert within(signs.count(1), len(signs), 1 / 2), name
    both = [operations for operations in lists if [o.name for o in operations] == ["translate-y", "translate-y"]]
    pairs = collections.Counter((one.sign, other.sign) for one, other in both)
    assert len(pairs) == 4
    assert all(within(seen, len(both), 1 / 4) for seen in pairs.values())


def test_an_image_depends_on_its_pixels_and_its_seed_alone() -> None:
    images = np.stack([np.roll(picture(height=16, width=24), 3 * i, axis=1) for i in range(60)])
    whole = augmentation.apply(augmentation.NAMES, images, seeds(60))
    np.testing.assert_array_equal(augmentation.apply(augmentation.NAMES, images, seeds(60)), whole)
    order = np.random.default_rng(1).permutation(60)
    mixed = augmentation.apply(augmentation.NAMES, images[order], [seeds(60)[i] for i in order])
    np.testing.assert_array_equal(mixed, whole[order])
    for i in range(60):
        np.testing.assert_array_equal(
            augmentation.apply(augmentation.NAMES, images[i : i + 1], [seeds(60)[i]])[0], whole[i]
        )


@pytest.mark.parametrize("channels", [1, 3])
def test_steps_come_in_turn_and_do_not_change_each_other(channels: int) -> None:
    images = np.stack([picture(channels)] * 40)
    found, before = images, images.copy()
    for name in ("crop", "flip", "autoaugment"):
        found = augmentation.apply((name,), found, seeds(40))
    np.testing.assert_array_equal(augmentation.apply(("crop", "flip", "autoaugment"), images, seeds(40)), found)
    np.testing.assert_array_equal(augmentation.apply(("autoaugment", "flip", "crop"), images, seeds(40)), found)
    np.testing.assert_array_equal(images, before)
