"""Write labelled images in each format like its publisher, with a few images instead of 60,000."""

from __future__ import annotations

import io
import json
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
    files["batches.meta.txt"] = ("\n".join(AIRPLANES) + "\n\n").encode()
    return {f"cifar-10-batches-bin/{name}": content for name, content in files.items()}


def cifar_100_binary(train: Part, test: Part, fine: list[str], coarse: list[str]) -> dict[str, bytes]:
    files = {
        f"{name}.bin": b"".join(map(record, p.pixels, p.coarse, p.labels))
        for name, p in (("train", train), ("test", test))
    }
    for name, names in (("fine", fine), ("coarse", coarse)):
        files[f"{name}_label_names.txt"] = ("\n".join(names) + "\n").encode()
    return {f"cifar-100-binary/{name}": content for name, content in files.items()}


# Folders and archives


def tar(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
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
