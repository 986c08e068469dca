"""Digests inside files: every changed byte is noticed, and the digest is what the documentation says it is."""

from __future__ import annotations

import hashlib
import json

import pytest

from ape_cli.storage import digests

TEXT = json.dumps({"name": "größe", "value": 0.1, "list": [1, 2]}, indent=2, ensure_ascii=False)


def test_the_digest_of_json_by_hand() -> None:
    """The SHA-256 of the file with 64 zeros in place of the digest."""
    made = digests.sealed(TEXT)
    found = json.loads(made)
    assert list(found) == ["name", "value", "list", "sha256"]
    digest = found.pop("sha256")
    assert found == json.loads(TEXT)
    assert digest == hashlib.sha256(made.replace(digest, "0" * 64).encode()).hexdigest()


def test_every_changed_byte_of_json_is_noticed() -> None:
    """A change makes the file invalid, or the digest wrong, or the field `sha256` disappear; it is never verified."""
    made = digests.sealed(TEXT).encode()
    assert digests.is_sealed(made, json.loads(made))
    for place in range(len(made)):
        for bit in (0, 3, 6):
            changed = bytearray(made)
            changed[place] ^= 1 << bit
            try:
                value = json.loads(changed)
            except ValueError:
                continue
            try:
                assert not digests.is_sealed(bytes(changed), value)
            except digests.AlteredError:
                continue
            assert "sha256" not in value


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: json.dumps(json.loads(text)),
        lambda text: text + "\n",
        lambda text: text.rstrip(),
        lambda text: text[:-4] + '", "sha256": 5, "x": "' + text[-4:],
        lambda text: '{"sha256": "' + "0" * 64 + '"}',
        lambda text: '{"sha256": null}',
    ],
)
def test_another_form_of_the_same_json_is_noticed(change) -> None:  # type: ignore[no-untyped-def]
    text = change(digests.sealed(TEXT))
    with pytest.raises(digests.AlteredError):
        digests.is_sealed(text.encode(), json.loads(text))


def test_json_without_a_digest_is_not_verified() -> None:
    assert not digests.is_sealed(TEXT.encode(), json.loads(TEXT))
