"""NVIDIA's multi-process service (MPS), which runs kernels of several processes at the same time on one GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def shared_gpu(wanted: bool) -> Iterator[bool]:
    """Run the service for processes that are started within the block, if it is wanted and installed.

    Yields whether these processes use the service. Without it, their kernels take turns. If the service is already
    running, it is neither started nor stopped.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if not wanted or control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield "CUDA_MPS_PIPE_DIRECTORY" in os.environ
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = not subprocess.run(
            [control, "-d"], check=False, capture_output=True, env=os.environ | variables
        ).returncode
        if started:
            os.environ.update(variables)
        try:
            yield started
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", check=False, capture_output=True, timeout=30)
                for name in variables:
                    os.environ.pop(name, None)
