"""CIFAR's pickles are read as data. Everything else that a pickle can do is an error without an effect."""

from __future__ import annotations

import copyreg
import os
import pickle
import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage.sources import _pickled
from tests.storage.sources import formats

DONE: list[str] = []  # effects that a pickle of these tests had


def happen(*_: Any) -> str:
    DONE.append("it happened")
    return "x"


class Calls:
    """An object that is pickled as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


VALUE = {"data": np.arange(12, dtype=np.uint8).reshape(3, 4), "labels": [1, 255, 70_000, -1], "names": ["a", "b"]}


def test_python_2_s_pickles_are_read() -> None:
    """Python's own unpickler is the independent reader, only for bytes that are made here."""
    content = formats.python_2(VALUE)
    ours, real = _pickled.load("x", content), pickle.loads(content, encoding="bytes")
    assert list(ours) == [key.decode() for key in real] == list(VALUE)
    assert ours["labels"] == real[b"labels"] == VALUE["labels"]
    assert ours["names"] == real[b"names"] == [b"a", b"b"]
    np.testing.assert_array_equal(ours["data"], VALUE["data"])
    np.testing.assert_array_equal(real[b"data"], VALUE["data"])


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_python_3_s_pickles_are_read(protocol: int, order: Any) -> None:
    data = np.asarray(VALUE["data"], order=order)
    same = data.copy(order)  # stored once and used twice, by the memo
    found = _pickled.load(
        "x", pickle.dumps({"data": data, "same": [same, same], "empty": (), "bytes": b"\xff"}, protocol)
    )
    np.testing.assert_array_equal(found["data"], VALUE["data"])
    assert found["data"].dtype == np.uint8
    assert found["same"][0] is found["same"][1]
    assert (found["empty"], found["bytes"]) == ((), b"\xff")


def array(names: bytes = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n", **changed: bytes) -> bytes:
    """A dictionary with an array of 2 bytes. Some parts of its pickle can be replaced."""
    parts = {
        "arguments": b"K\x00\x85U\x01b",
        "shape": b"K\x02\x85",
        "kind": b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R",
        "content": b"U\x02ab",
    } | changed
    state = b"(K\x01" + parts["shape"] + parts["kind"] + b"\x89" + parts["content"] + b"t"
    return b"\x80\x02}U\x01d" + names + parts["arguments"] + b"\x87R" + state + b"bs."


def test_the_array_that_is_changed_below_is_a_good_one() -> None:
    assert _pickled.load("x", array())["d"].tolist() == list(b"ab")


TEXT = b"X" + struct.pack("<I", 10**6) + b"a" * 10**6 + b"q\x00"  # a text of a million letters, in the memo
ENCODE = b"c_codecs\nencode\nq\x01X\x06\x00\x00\x00latin1q\x02"
DTYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
MADE = "much larger than the file"
STATE = "a state that is not that of an array of bytes"
HERE = b"ctests.storage.sources.test_pickled\nhappen\n"
DEEP = 100_000
HOSTILE: dict[str, tuple[bytes, str]] = {
    "os.system": (pickle.dumps({"data": Calls(os.system, "touch happened")}, 2), r"it asks for posix\.system"),
    "protocol 4": (pickle.dumps({"data": Calls(os.system, "touch happened")}, 4), r"it asks for posix\.system"),
    "eval": (b"\x80\x02}U\x01dc__builtin__\neval\nU\x01x\x85Rs.", r"it asks for __builtin__\.eval"),
    "a function of ours": (
        b"\x80\x02}U\x01d" + HERE + b")Rs.",
        r"it asks for tests\.storage\.sources\.test_pickled\.happen",
    ),
    "numpy's loader": (b"\x80\x02}U\x01dcnumpy\nload\nU\x01x\x85Rs.", r"it asks for numpy\.load"),
    "an attribute of what is allowed": (
        b"\x80\x04}\x8c\x01d\x8c\x05numpy\x8c\x0endarray.tofile\x93s.",
        r"it asks for numpy\.ndarray\.tofile",
    ),
    "an instance of protocol 0": (b"(itests.storage.sources.test_pickled\nhappen\n.", "the instruction INST"),
    "an instance of protocol 1": (b"(" + HERE + b"o.", "it asks for tests"),
    "an instance of protocol 2": (b"\x80\x02cnumpy\nndarray\n)\x81.", "the instruction NEWOBJ"),
    "an instance by keywords": (b"\x80\x04cnumpy\nndarray\n)}\x92.", "the instruction NEWOBJ_EX"),
    "a copyreg extension": (b"\x80\x02\x82\xf0)R.", "the instruction EXT1"),
    "a persistent id": (b"Phappened\n.", "the instruction PERSID"),
    "a persistent id of protocol 2": (b"\x80\x02U\x01xQ.", "the instruction BINPERSID"),
    "an allowed name called wrongly": (array(arguments=b"K\x00\x85U\x01c"), "reconstruct with other arguments"),
    "a subclass of an array": (array(b"cnumpy\ndtype\ncnumpy\nndarray\n"), "dtype with other arguments"),
    "an array that is called": (array(b"cnumpy\nndarray\ncnumpy\nndarray\n"), "ndarray with other arguments"),
    "an array of objects": (array(kind=b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R"), "dtype with other arguments"),
    "a dtype of many fields": (array(kind=b"cnumpy\ndtype\n](U\x01ae\x85R"), "dtype with other arguments"),
    "an array of no dtype": (array(kind=b"N"), "other values than bytes"),
    "too few bytes": (array(content=b"U\x01a"), r"an array of 1 bytes for the shape \(2,\)"),
    "too many bytes": (array(content=b"U\x03abc"), "an array of 3 bytes"),
    "an array of a list": (array(content=b"](K\x01K\x02e"), "other values than bytes"),
    "a negative shape": (array(shape=b"J\xff\xff\xff\xffJ\xfe\xff\xff\xff\x86"), "without a shape"),
    "an enormous shape": (array(shape=b"\x8a\xff" + b"\x7f" * 255 + b"\x85"), "damaged|an array of 2 bytes"),
    "a codec that decompresses": (
        b"\x80\x02}U\x01dc_codecs\nencode\nX\x01\x00\x00\x00xX\x03\x00\x00\x00bz2\x86Rs.",
        "encode with other arguments",
    ),
    "a state for a name": (b"\x80\x02cnumpy\nndarray\n}b.", "a state for something that is not an array"),
    "an array without a state": (array().partition(b"R(")[0] + b"Rs.", "without content"),
    "no dictionary": (b"\x80\x02].", "a list instead of a dictionary"),
    "a value that is called": (b"\x80\x02K\x01)R.", "a call of something that is not a function"),
    "a key that is no text": (b"\x80\x02}K\x01K\x01s.", "is not text"),
    "a key without a value": (b"\x80\x02}(U\x01au.", "damaged"),
    "nested lists": (b"\x80\x02" + b"]" * DEEP + b"a" * (DEEP - 1) + b".", "a list instead"),
    "a nested tuple": (b"\x80\x02)" + b"\x85" * DEEP + b".", "a tuple instead"),
    "a nested tuple as a key": (b"\x80\x02})" + b"\x85" * DEEP + b"K\x01s.", "is not text"),
    "a nested tuple as an argument": (array(arguments=b")" + b"\x85" * DEEP + b"U\x01b"), "other arguments"),
    "a million million by the memo": (b"\x80\x02})" + b"q\x00h\x00h\x00\x87" * 100 + b"K\x01s.", "is not text"),
    "marks alone": (b"(" * DEEP + b".", "damaged"),
    "nothing on the stack": (b"\x80\x02a.", "fewer values"),
    "values from before a mark": (b"\x80\x02}U\x01a(K\x01s.", "fewer values"),
    "nothing in the memo": (b"\x80\x02h\x07.", "damaged"),
    "too many instructions": (b"\x80\x02" + b"N0" * 1_100_000, "the instruction POP"),
    "too many values": (b"\x80\x02" + b"N" * 2_100_000, "more than 2,000,000 instructions"),
    "a text that is encoded again and again": (b"\x80\x02" + TEXT + ENCODE + b"h\x01h\x00h\x02\x86R" * 1000, MADE),
    "a text that is a key again and again": (b"\x80\x02" + TEXT + b"}" + b"h\x00Ns" * 1000, MADE),
    "a large text beyond Latin-1": (b"\x80\x02X" + struct.pack("<I", 10**7 + 3) + "€".encode() + b"a" * 10**7, MADE),
    "a state of a dtype of other values": (
        array(kind=DTYPE + b"(K\x03U\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"),
        STATE,
    ),
    "a text as the state of a dtype": (array(kind=DTYPE + b"U\x01ab"), STATE),
    "a text as the state of an array": (array().partition(b"R(")[0] + b"RU\x05abcdebs.", STATE),
    "a long text of an unsupported instruction": (
        b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"a" * 999,
        "BINUNICODE8",
    ),
    "text of protocol 0": (b"S'x'\n.", "the instruction STRING 'x'"),
    "an instruction of nobody": (b"\xfe.", "damaged"),
    "not a pickle": (b"PAR1\x00\x00", "damaged|the instruction"),
    "an empty file": (b"", "damaged"),
}


@pytest.mark.parametrize("which", HOSTILE)
def test_anything_else_is_one_error_and_nothing_happens(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    DONE.clear()
    content, told = HOSTILE[which]
    with pytest.raises(DataError, match=r"x is not a pickle of numbers, text and arrays of bytes") as error:
        _pickled.load("x", content)
    assert re.search(told, str(error.value.got))
    assert error.value.fix
    assert not DONE
    assert not list(tmp_path.iterdir())


def test_one_text_that_would_be_gigabytes_costs_a_moment() -> None:
    tracemalloc.start()
    try:
        for which in ("a text that is encoded again and again", "a long text of an unsupported instruction"):
            with pytest.raises(DataError):
                _pickled.load("x", HOSTILE[which][0])
        assert tracemalloc.get_traced_memory()[1] < 50 * 10**6
    finally:
        tracemalloc.stop()


def test_what_is_refused_does_happen_elsewhere() -> None:
    """Python's own unpickler runs what is refused here. It runs a known extension even without a lookup."""
    DONE.clear()
    pickle.loads(HOSTILE["a function of ours"][0])
    assert DONE == ["it happened"]
    copyreg.add_extension(__name__, "happen", 0xF0)
    try:
        pickle.loads(HOSTILE["a copyreg extension"][0])
        assert len(DONE) == 2
        with pytest.raises(DataError, match="the instruction EXT1"):
            _pickled.load("x", HOSTILE["a copyreg extension"][0])
        assert len(DONE) == 2
    finally:
        copyreg.remove_extension(__name__, "happen", 0xF0)


def test_a_large_number_in_the_memo_takes_no_room() -> None:
    assert _pickled.load("x", b"\x80\x02}r" + struct.pack("<I", 2**31 - 1) + b".") == {}


def test_every_beginning_of_a_pickle_is_an_error() -> None:
    whole = formats.python_2(VALUE)
    for length in range(len(whole)):
        with pytest.raises(DataError):
            _pickled.load("x", whole[:length])


def test_any_bytes_are_data_or_one_error() -> None:
    rng = np.random.default_rng(0)
    whole, good = np.frombuffer(formats.python_2(VALUE), np.uint8), 0
    for _ in range(4000):
        changed = whole.copy()
        at = rng.integers(0, whole.size, rng.integers(1, 4))
        changed[at] = rng.integers(0, 256, at.size)
        try:
            assert isinstance(_pickled.load("x", changed.tobytes()), dict)
            good += 1
        except DataError:
            continue
    assert 0 < good < 4000
