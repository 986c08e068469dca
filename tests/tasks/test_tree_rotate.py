"""tree-rotate: the mirror image at every depth, or of the root alone, or the right rotation of all subtrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from ape_cli.data import generation
from tests import recursive
from tests.tasks.contract import FORMS, check_trees, in_orders


@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], order: str) -> None:
    found = check_trees("tree-rotate", order, recursive.mirror, **form)
    assert sum(recursive.mirror(tree) != reversed_root(tree) for tree, _ in found) > len(found) / 2


def reversed_root(tree: recursive.Tree) -> recursive.Tree:
    return (tree[0], *tree[:0:-1])


def rotated(tree: recursive.Tree) -> recursive.Tree:
    """A right rotation, as textbooks draw it, and then the same in the three subtrees."""
    match tree:
        case (f, (p, left, middle), right):
            return (p, rotated(left), (f, rotated(middle), rotated(right)))
        case _:
            return tree


@pytest.mark.parametrize(
    ("rotation", "expected", "form", "order"),
    [
        ("root", reversed_root, {}, "breadth"),
        ("root", reversed_root, {}, "breadth-to-depth"),
        ("root", reversed_root, {"branching": 3, "depth_mean": 4, "depth_std": 0.5}, "depth"),
        ("root", reversed_root, {"binarise": True}, "depth-to-breadth"),
        ("right", rotated, {}, "breadth"),
        ("right", rotated, {}, "breadth-to-depth"),
        ("right", rotated, {"binarise": True}, "depth"),
    ],
)
def test_other_forms_are_rederived(rotation: str, expected: Any, form: dict[str, Any], order: str) -> None:
    found = check_trees("tree-rotate", order, expected, rotation=rotation, **form)
    assert sum(expected(tree) != recursive.mirror(tree) for tree, _ in found) > 0.9 * len(found)
    if rotation == "right":  # one left child in 14 is a leaf at depth 7: it is not the deep one, and drew 0
        kept = sum(rotated(tree) == tree for tree, _ in found) / len(found)
        assert abs(kept - 1 / 14) < 4 * (1 / 14 / len(found)) ** 0.5


# of 60 trees of depth N(3, 0.5), seed 7: the option, the stored parameters, and the digest of the plan and the
# fingerprint that version 0.1 computed when the option was `mirror`
_EARLIER = [
    (
        "mirror",
        {},
        "615379c4b7f6a6d7b653ab03f9dca37967b5d553cfa4d0e450c03cbf3ff1c19e",
        "32977803e893c8c777a3e78b283953bb85e30b602510de232b311ee944236735",
    ),
    (
        "root",
        {"mirror": "root"},
        "0e2d4f2bfca98052749335af2ec6a05c3845ad0c54ead6848c268a97443b4f0c",
        "d4dd3bb96c24d56195b268ca32995d85826e8cc6558cde6141fc13454edc9129",
    ),
    (
        "right",
        {"mirror": "search-tree"},
        "d176376df3965245c64ddf5cca6d9fea7938c43f9ab345fc916960307d538d43",
        "8c8693f8fb187186a52848b5b026cde823b419fa1d0eb3fa4f736f7d7a16ff5b",
    ),
]


@pytest.mark.parametrize(("rotation", "stored", "digest", "fingerprint"), _EARLIER)
def test_datasets_are_those_of_earlier_versions(
    rotation: str, stored: dict[str, str], digest: str, fingerprint: str, tmp_path: Path
) -> None:
    task = tasks.make("tree-rotate", order="breadth", depth_mean=3.0, depth_std=0.5, rotation=rotation)
    plan = generation.plan(task, seed=7, rows={"train": 40, "validation": 10, "test": 10}, shard_rows=64)
    generation.generate(task, plan, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["plan"]["parameters"] == {"depth_mean": 3.0, "depth_std": 0.5, "vocabulary": 20} | stored
    assert (plan.digest, manifest["fingerprint"]) == (digest, fingerprint)
    assert generation.generate(task, plan, tmp_path).written == 0  # the folder is complete
    assert tasks.recorded("tree-rotate", "breadth", manifest["plan"]["parameters"]) == task
    assert (f"--rotation {rotation}" in (tmp_path / "README.md").read_text()) == bool(stored)


def test_tables_name_the_rotation_of_records_of_all_versions() -> None:
    task = tasks.load("tree-rotate")
    assert task.form({}) == task.form({"mirror": "all"}) == ""
    assert task.form({"mirror": "root", "branching": 3}) == "branching 3, rotation root"
    assert task.form({"mirror": "search-tree"}) == "rotation right"
    with pytest.raises(UsageError, match="unknown rotation"):
        tasks.recorded("tree-rotate", "breadth", {"mirror": "left"})
