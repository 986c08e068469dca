"""Digests inside files: every changed byte is noticed, and the digest is what the documentation says it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from ape_cli.core.errors import RunError
from ape_cli.storage import digests
from ape_cli.storage.tensors import check_tensors, load_tensors, save_tensors

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


def tensors() -> dict[str, torch.Tensor]:
    return {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones((), dtype=torch.bfloat16), "c": torch.zeros(0)}


def test_the_digest_of_tensors_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, tensors(), {"step": 3})
    found, about, sealed = load_tensors(path)
    assert sealed
    assert about == {"step": 3}
    assert {name: value.tolist() for name, value in found.items()} == {k: v.tolist() for k, v in tensors().items()}
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    digest = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["ape"])["sha256"]
    assert hashlib.sha256(raw.replace(digest.encode(), b"0" * 64)).hexdigest() == digest
    assert check_tensors(path) == ({"step": 3}, True)


def test_every_changed_byte_of_tensors_is_noticed(tmp_path: Path) -> None:
    """The result is an error, or the file counts as one without a digest. It is never verified."""
    path = tmp_path / "x.safetensors"
    save_tensors(path, tensors(), {"step": 3})
    whole = path.read_bytes()
    unsealed = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        try:
            found, _, sealed = load_tensors(path)
        except RunError:
            continue
        assert not sealed
        unsealed += 1
        assert {name: value.tolist() for name, value in found.items()} == {k: v.tolist() for k, v in tensors().items()}
    assert unsealed <= len(b'{\\"sha256\\": \\"')  # the bytes that name the digest
    for cut in (0, 1, 8, 9, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(RunError):
            load_tensors(path)


def test_metadata_that_are_nested_too_deeply_are_not_ours(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "x.safetensors"
    for text in ("[" * 100_000, "[]", "1", "{", '"text"'):
        save_file(tensors(), path, metadata={"ape": text})
        with pytest.raises(RunError, match="was not written by ape"):
            load_tensors(path)
