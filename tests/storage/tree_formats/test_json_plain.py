"""JSON documents as trees of objects, keys and values, whatever the keys are."""

from __future__ import annotations

import json

import pytest

from ape_cli.storage import tree_formats
from tests.storage.tree_formats.reading import nested, parsed
from tests.storage.tree_formats.test_json import by_hand


@pytest.mark.parametrize("unit", ["document", "file"])
@pytest.mark.parametrize(
    "text", ['{"label": "S", "children": []}', '[{"label": "S"}, {"label": "T"}]', "[]", '{"a": 1}']
)
def test_labels_are_keys_like_others(text: str, unit: tree_formats.Unit) -> None:
    assert nested(*parsed("json-plain", text, unit)) == by_hand(json.loads(text))


def test_no_suffix_chooses_it() -> None:
    assert tree_formats.by_suffix("a.json") == "json"
