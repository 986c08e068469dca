"""Files of tensors: safetensors with a JSON object in the metadata. No pickle is read."""

from __future__ import annotations

import errno
import json
import re
from typing import Any

from ape_cli.core.errors import RunError
from ape_cli.core.memory import most_memory
from ape_cli.storage import files
from ape_cli.storage.object_store import too_large
from ape_cli.storage.paths import StoragePath

Tensors = dict[str, Any]  # name -> torch.Tensor; this package does not import torch
AGAIN = "train the run again with `ape train … --overwrite`"


def save_tensors(path: StoragePath, tensors: Tensors, metadata: dict[str, Any]) -> None:
    """Write tensors and the JSON object `metadata` to a safetensors file, atomically.

    Raises `ApeError` if the file cannot be written.
    """
    with files.replacing(path) as temporary:
        write_tensors(temporary, tensors, metadata)


def write_tensors(path: Any, tensors: Tensors, metadata: dict[str, Any]) -> None:
    """Write tensors and the JSON object `metadata` to a local safetensors file. Raises `OSError` if that fails."""
    import safetensors.torch

    separate, taken = Tensors(), set[int]()
    for name, tensor in tensors.items():
        separate[name] = tensor.detach().contiguous()
        if (memory := separate[name].untyped_storage().data_ptr()) in taken:  # safetensors refuses shared memory
            separate[name] = separate[name].clone()
        taken.add(memory)
    try:
        # only one key: safetensors writes several keys in an order that changes from run to run
        safetensors.torch.save_file(separate, path, metadata={"ape": json.dumps(metadata)})
    except safetensors.SafetensorError as error:
        cause = re.search(r"os error (\d+)", str(error))
        raise OSError(int(cause[1]) if cause else errno.EIO, str(error)) from error


def load_tensors(path: StoragePath, again: str = AGAIN) -> tuple[Tensors, dict[str, Any]]:
    """Read a safetensors file of this program: its tensors, and the JSON object in its metadata.

    `again` is the fix that an error suggests. Raises `RunError` if the file is damaged or cannot be read.
    """
    import safetensors

    try:
        if path.stat().st_size > (limit := most_memory()):
            raise too_large(path, limit)
        with files.local(path) as here, safetensors.safe_open(here, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})["ape"])
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118 - not a dict
    except OSError as error:
        fix = files.how_to_read(error, again)
        raise RunError(f"cannot read {path}", got=error.strerror or str(error), fix=fix) from error
    except (safetensors.SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise RunError(f"{path} is not a complete safetensors file of ape", got=str(error), fix=again) from error


def parse_tensors(content: bytes, path: StoragePath, again: str = AGAIN) -> Tensors:
    """The tensors in the content of the safetensors file `path`. Raises `RunError` if it is damaged."""
    import safetensors.torch

    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError) as error:
        raise RunError(f"{path} is not a complete safetensors file", got=str(error), fix=again) from error
