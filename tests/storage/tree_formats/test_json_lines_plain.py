"""JSON lines as trees of objects, keys and values, whatever the keys are."""

from __future__ import annotations

import json

from ape_cli.storage import tree_formats
from tests.storage.tree_formats.reading import nested, parsed
from tests.storage.tree_formats.test_json import by_hand

LINES = ['{"label": "S"}', '{"label": "S", "kids": []}', "[1]"]


def test_labels_are_keys_like_others() -> None:
    trees = parsed("json-lines-plain", "\n\n".join(LINES))
    assert [nested(tree) for tree in trees] == [by_hand(json.loads(line)) for line in LINES]
    assert [tree.document for tree in trees] == [0, 1, 2]
    (whole,) = parsed("json-lines-plain", "\n".join(LINES), "file")
    assert nested(whole) == ("file", "file", tuple(map(nested, trees)))


def test_no_suffix_chooses_it() -> None:
    assert tree_formats.by_suffix("a.jsonl") == "json-lines"
