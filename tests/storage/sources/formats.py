"""Write labelled images in each format like its publisher, with a few images instead of 60,000."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

AIRPLANES = "airplane automobile bird cat deer dog frog horse ship truck".split()  # noqa: SIM905
FINE = [f"fine {i}" for i in range(100)]
COARSE = [f"coarse {i}" for i in range(20)]


@dataclass(frozen=True)
class Part:
    """Some labelled images. `coarse` is given only if there are two labels."""

    pixels: np.ndarray  # uint8 [R, 32, 32, 3]
    labels: list[int]
    coarse: list[int]


def part(seed: int, rows: int, classes: int = 10) -> Part:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)
    return Part(pixels, rng.integers(0, classes, rows).tolist(), rng.integers(0, 20, rows).tolist())


# The binary version of CIFAR


def record(image: np.ndarray, *labels: int) -> bytes:
    """The labels, then all red bytes, all green and all blue ones, each by rows from the top."""
    planes = ([image[y, x, c] for y in range(32) for x in range(32)] for c in range(3))
    return bytes(labels) + b"".join(bytes(plane) for plane in planes)


def cifar_10_binary(train: list[Part], test: Part) -> dict[str, bytes]:
    batches = {f"data_batch_{i}.bin": p for i, p in enumerate(train, 1)} | {"test_batch.bin": test}
    files = {name: b"".join(map(record, p.pixels, p.labels)) for name, p in batches.items()}
    meta = "\n".join(AIRPLANES) + "\n\n"
    return {f"cifar-10-batches-bin/{name}": content for name, content in files.items()} | {
        "cifar-10-batches-bin/batches.meta.txt": meta.encode()
    }


def cifar_100_binary(train: Part, test: Part, fine: list[str], coarse: list[str]) -> dict[str, bytes]:
    files = {
        f"{name}.bin": b"".join(map(record, p.pixels, p.coarse, p.labels))
        for name, p in (("train", train), ("test", test))
    }
    for name, names in (("fine", fine), ("coarse", coarse)):
        files[f"{name}_label_names.txt"] = ("\n".join(names) + "\n").encode()
    return {f"cifar-100-binary/{name}": content for name, content in files.items()}


# The Python version of CIFAR


def python_2(value: Any) -> bytes:
    """A pickle of protocol 2 as Python 2 writes it: text is a byte string, and an array contains a byte string."""
    return b"\x80\x02" + _python_2(value) + b"."


def _python_2(value: Any) -> bytes:
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode("latin-1")
    if isinstance(value, bytes):
        return b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_python_2, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_python_2(k) + _python_2(v) for k, v in value.items()) + b"u"
    reconstruct = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    shape = b"".join(map(_python_2, map(int, value.shape)))
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return reconstruct + b"(K\x01" + b"(" + shape + b"t" + kind + b"\x89" + _python_2(value.tobytes()) + b"tb"


def rows(pixels: np.ndarray) -> np.ndarray:
    """The pixels in the order of the Python version. uint8 [R, 3072]"""
    return np.stack([np.frombuffer(record(image), np.uint8) for image in pixels])


def cifar_10_python(train: list[Part], test: Part, pickled=python_2) -> dict[str, bytes]:
    batches = {f"data_batch_{i}": p for i, p in enumerate(train, 1)} | {"test_batch": test}
    files = {
        name: pickled({"batch_label": name, "labels": p.labels, "data": rows(p.pixels), "filenames": ["x.png"]})
        for name, p in batches.items()
    }
    files["batches.meta"] = pickled({"num_cases_per_batch": 10000, "label_names": AIRPLANES, "num_vis": 3072})
    return {f"cifar-10-batches-py/{name}": content for name, content in files.items()}


def cifar_100_python(train: Part, test: Part, fine: list[str], coarse: list[str]) -> dict[str, bytes]:
    files = {
        name: python_2({"data": rows(p.pixels), "coarse_labels": p.coarse, "fine_labels": p.labels})
        for name, p in (("train", train), ("test", test))
    }
    files["meta"] = python_2({"fine_label_names": fine, "coarse_label_names": coarse})
    return {f"cifar-100-python/{name}": content for name, content in files.items()}


# Folders and archives


def folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


# Parquet


def encoded(image: np.ndarray | Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    whole = image if isinstance(image, Image.Image) else Image.fromarray(image)
    whole.save(file, form, **options)
    return file.getvalue()


def parquet(
    path: Path, image: str, images: list[Any], labels: dict[str, Any], names: dict[str, list[str]] | None = None
) -> Path:
    """The format of Hugging Face's library: images are structs of bytes and a path; the metadata has the classes."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [i if isinstance(i, dict) or i is None else {"bytes": i, "path": f"{n}.png"} for n, i in enumerate(images)]
    table = pa.table({image: pa.array(values, kind), **labels})
    if names:
        features = {image: {"_type": "Image"}}
        features |= {name: {"names": found, "_type": "ClassLabel"} for name, found in names.items()}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def pngs(pixels: np.ndarray) -> list[bytes]:
    return [encoded(image) for image in pixels]
