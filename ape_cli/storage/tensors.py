"""Files of tensors: safetensors with a JSON object in the metadata, and a digest (`digests.py`). No pickle is read."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ape_cli.core import budget
from ape_cli.core.errors import RunError
from ape_cli.storage import digests, files
from ape_cli.storage.json_files import parse_json
from ape_cli.storage.paths import StoragePath

Tensors = dict[str, Any]  # name -> torch.Tensor; this package does not import torch
_FLOATS = ("F16", "F32", "F64")  # the floating-point types that numpy has
_AGAIN = "train the run again with --overwrite"


class ForeignError(ValueError):
    """A file of tensors was not written by this program."""


def save_tensors(path: StoragePath, tensors: Tensors, about: dict[str, Any]) -> None:
    """Write tensors and the JSON object `about` to a safetensors file, atomically.

    Raises `ApeError` if the file cannot be written.
    """
    import safetensors.torch

    contiguous = {k: v.detach().contiguous() for k, v in tensors.items()}
    metadata = json.dumps({digests.FIELD: digests.ZEROS, **dict(sorted(about.items()))})
    with files.replacing(path) as temporary:
        try:
            # only one key: safetensors writes several keys in an order that changes from run to run
            safetensors.torch.save_file(contiguous, temporary, metadata={"ape": metadata})
        except safetensors.SafetensorError as error:
            full = f"os error {errno.ENOSPC}" in str(error)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error
        digests.seal_tensors(temporary)


def load_tensors(path: StoragePath, again: str = _AGAIN) -> tuple[Tensors, dict[str, Any], bool]:
    """Read a safetensors file of this program.

    Returns the tensors, the JSON object in the metadata, and whether the file has a digest. `again` is the fix that an
    error suggests.

    Raises `RunError` if the file is damaged, was altered, or was not written by this program.
    """
    with _opened(path, "pt", again) as (file, about, sealed):
        return {name: file.get_tensor(name) for name in file.keys()}, about, sealed  # noqa: SIM118 - not a dict


def check_tensors(path: StoragePath, *, finite: bool = False) -> tuple[dict[str, Any], bool]:
    """Check a safetensors file like `load_tensors`, without loading its tensors at once. This does not import torch.

    `finite`: whether all floating-point values must be finite.
    """
    import numpy as np

    with _opened(path, "np") as (file, about, sealed):
        for name in file.keys() if finite else ():
            if file.get_slice(name).get_dtype() in _FLOATS and not np.isfinite(file.get_tensor(name)).all():
                raise digests.AlteredError(f"{name} has values that are not finite")
        return about, sealed


def check_length(path: StoragePath) -> None:
    """Check the header of a safetensors file of this program, before all of its bytes are read.

    Raises `AlteredError` if the file is not as long as its header says, or if most of it was never written,
    `ForeignError` if the header has no metadata of this program, `ValueError` if it is no header, and `OSError` if the
    file cannot be read.
    """
    size = path.stat().st_size
    with files.opened(path) as file:
        header = int.from_bytes(file.read(8), "little")
        if header > budget.TENSOR_HEADER_BYTES:
            raise ValueError(f"its header has {header:,} bytes")
        try:
            tensors = parse_json(file.read(header), budget.TENSOR_HEADER_VALUES)
            about = tensors.pop("__metadata__", {})
            ends = [tensor["data_offsets"][1] for tensor in tensors.values()]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"its header cannot be read: {error}") from error
    if any(type(end) is not int for end in ends):
        raise ValueError("its header cannot be read")
    if not isinstance(about, dict) or not isinstance(about.get("ape"), str):
        raise ForeignError("its metadata is not ours")
    data = max(ends, default=0)
    if size != 8 + header + data:
        raise digests.AlteredError(f"{size:,} bytes, and its header says {8 + header + data:,}")
    if files.is_hole(path):
        raise digests.AlteredError(f"most of its {size:,} bytes were never written")


@contextmanager
def _opened(path: StoragePath, framework: str, again: str = _AGAIN) -> Iterator[tuple[Any, dict[str, Any], bool]]:
    """Open a safetensors file. Yields it, the JSON object in its metadata, and whether it has a digest.

    Raises `RunError` as described at `load_tensors`.
    """
    import safetensors

    foreign = RunError(f"{path} was not written by ape", got="its metadata is not ours", fix=again)
    try:
        if not path.is_file():
            raise ValueError("it is no regular file")
        check_length(path)
        with files.local(path) as here:
            sealed = digests.is_sealed_tensors(here)
            with safetensors.safe_open(here, framework=framework) as file:
                about = json.loads((file.metadata() or {})["ape"])
                if not isinstance(about, dict):
                    raise foreign
                about.pop(digests.FIELD, None)
                yield file, about, sealed
    except digests.AlteredError as error:
        raise RunError(f"{path} was altered", got=str(error), fix=again) from error
    except (ForeignError, KeyError, json.JSONDecodeError, RecursionError) as error:
        raise foreign from error
    except RunError:
        raise
    except OSError as error:
        got = error.strerror or str(error)
        raise RunError(f"cannot read {path}", got=got, fix=files.how_to_read(error, again)) from error
    except (safetensors.SafetensorError, ValueError) as error:
        raise RunError(f"{path} is not a complete safetensors file", got=str(error), fix=again) from error
