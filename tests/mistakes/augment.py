"""Mistakes in the augmentation of images."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "one sub-policy of AutoAugment for the whole batch",
        "chosen",
        "pair = POLICY[int(row[0] * len(POLICY))]",
        "pair = POLICY[int(draws[0, 0] * len(POLICY))]",
        "data/test_augmentation.py::test_sub_policies_are_drawn_alike_for_each_image",
    ),
    Mistake(
        "the sign of a magnitude never drawn",
        "chosen",
        "signs = [1 if draw < 0.5 else -1 for draw in row[3:5]]",
        "signs = [1, 1]",
        "data/test_augmentation.py::test_signs_are_fair_coins_of_their_own",
    ),
    Mistake(
        "x and y exchanged in a translation",
        "_matrix",
        '(1, 0, -shift, 0, 1, 0) if name == "translate-x" else (1, 0, 0, 0, 1, -shift)',
        '(1, 0, -shift, 0, 1, 0) if name == "translate-y" else (1, 0, 0, 0, 1, -shift)',
        "data/test_augmentation.py::test_translations_by_hand",
    ),
    Mistake(
        "a crop that never reaches the far end",
        "_crop",
        "draws * (2 * np.array(padding) + 1)",
        "draws * (2 * np.array(padding))",
        "data/test_augmentation.py::test_crops_reach_every_place_alike",
    ),
    Mistake(
        "a crop with one offset for both axes",
        "apply",
        "result = _crop(result, draws[:, 0:2])",
        "result = _crop(result, draws[:, :1])",
        "data/test_augmentation.py::test_crops_reach_every_place_alike",
    ),
]
