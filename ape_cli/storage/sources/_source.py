"""The type of a source of images, and its checks: names of classes, and labels within them.

Shapes: R images, H height, W width, C channels: 1 (gray) or 3 (RGB).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ape_cli.core.errors import DataError, pick
from ape_cli.core.vocabulary import SPLITS

_CIFAR_10 = "airplane automobile bird cat deer dog frog horse ship truck"
_FINE = """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel
streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm"""
_COARSE = """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1
vehicles_2"""
CLASSES = {"cifar-10": _CIFAR_10.split(), "cifar-100": _FINE.split(), "cifar-100-coarse": _COARSE.split()}
MOST_CLASSES = 2**16
_MOST_CHARACTERS = 4 * 2**20  # of the names of all classes
_MISPRINTS = {"cra": "crab"}  # in the copy of CIFAR-100 on the Hugging Face hub


@dataclass(frozen=True)
class LabelledImages:
    """Images of one size, each with a label."""

    pixels: np.ndarray  # uint8 [R, H, W, C], C = 1 (gray) or 3 (RGB)
    labels: np.ndarray  # int64 [R], indices into the classes


@dataclass(frozen=True)
class ImageSource:
    """A set of labelled images in splits. Make one with `sources.open_source`."""

    name: str  # can be part of a file name: [a-z0-9-]
    classes: list[str]  # names by label
    splits: dict[str, LabelledImages]  # always has "train"; "validation" and "test" if the source has them


def choose(label: str | None, allowed: Sequence[str]) -> str:
    """The requested label, or the first of `allowed` for None. Raises `UsageError` if it is not allowed."""
    return allowed[0] if label is None else pick("label", label, allowed)


def cifar_name(classes: list[str]) -> str | None:
    """The name of the CIFAR dataset that has exactly these classes, or None."""
    mended = [_MISPRINTS.get(name, name) for name in classes]
    return next((name for name, published in CLASSES.items() if published == mended), None)


def source(path: Path, classes: list[str], splits: dict[str, LabelledImages]) -> ImageSource:
    """Check the labels, and make the source. Splits without rows are left out.

    If the classes and the image size are those of a CIFAR dataset, the source gets its name. Otherwise the name comes
    from `path`.

    Raises `DataError` if there are no training images, a label is out of range, or the names of the classes are no text
    or too large.
    """
    text = "".join(classes)
    if len(classes) > MOST_CLASSES or len(text) > _MOST_CHARACTERS or text.encode(errors="replace").decode() != text:
        got = f"{len(classes):,} classes, {len(text):,} characters"
        allowed = f"{MOST_CLASSES:,} classes, {_MOST_CHARACTERS:,} characters of Unicode"
        raise DataError("the class names are too long, or are not text", got=got, allowed=allowed)
    filled = {name: splits[name] for name in SPLITS if name in splits and len(splits[name].labels)}
    if "train" not in filled:
        raise DataError("no images to train on", got=path, fix="add a train split, or point to the file itself")
    for name, images in filled.items():
        wrong = np.flatnonzero((images.labels < 0) | (images.labels >= len(classes)))
        if wrong.size:
            got, allowed = f"{images.labels[wrong[0]]} in row {wrong[0]}", f"0 to {len(classes) - 1}"
            raise DataError(f"a label of {name} is out of range", got=got, allowed=allowed)
    cifar = cifar_name(classes) if filled["train"].pixels.shape[1:] == (32, 32, 3) else None
    if cifar:
        return ImageSource(cifar, CLASSES[cifar], filled)
    return ImageSource(_fit_for_a_file(path), classes, filled)


def _fit_for_a_file(path: Path) -> str:
    """Derive a name from a path: lower case, without extensions, and with hyphens for other characters.

    >>> _fit_for_a_file(Path("data/My Birds_2.tar.gz"))
    'my-birds-2'
    """
    whole = path.resolve()
    name = whole.name if whole.is_dir() else re.sub(r"(\.tar)?\.\w+$", "", whole.name)
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "images"
