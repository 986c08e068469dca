"""Further measurements of stage 2: growth of the cost with length, speed of the machine, and generation of datasets."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from ape_cli import attention
from ape_cli.data.batches import SequenceBatch
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.resolution import locality
from ape_cli.models import factory, transformer
from ape_cli.models.device import products
from ape_cli.models.transformer import loss
from ape_cli.runs.config import PRECISIONS
from ape_cli.structure import Seq

SCHEMES = ("none", "rope", "alibi", "orthogonal-seq")
LENGTHS = {"cuda": (512, 2048, 8192, 16_384), "cpu": (32, 64)}
# schemes with an added bias (alibi) and none, with the backend that is not their default
BACKENDS = (("alibi", "plain"), ("none", "plain"))
ROWS = {"cuda": 1_000_000, "cpu": 2_000}


def growth(scheme: str, length: int, preset: str, device: str, backend: str | None = None) -> dict[str, float | None]:
    """Measure forward and backward on one row of `length` tokens each way.

    -> milliseconds and peak memory in gigabytes; None if the memory is not enough. `backend` selects the backend of
    attention; None is the default one.
    """
    where, name = torch.device(device), "tf32" if device == "cuda" else "fp32"
    # schemes with a maximum size need a value, but no model of this length is trained
    chosen = ExperimentSpec(preset=preset, scheme=scheme, set={"dropout": 0.0}).config("sequence")
    chosen = chosen.model_copy(update={"decay": locality(chosen), "max_size": length})
    model = factory.build(chosen, Seq(), 23).to(where)
    ids = torch.randint(3, 23, (1, length), generator=torch.Generator().manual_seed(1))
    at, none = torch.arange(length)[None], torch.zeros(1, dtype=torch.int64).numpy()
    mask = torch.ones_like(ids, dtype=torch.bool)
    made = SequenceBatch(
        source_ids=ids,
        source_positions=at + 1,
        source_mask=mask,
        input_ids=ids,
        input_positions=at,
        labels=ids,
        row=none,
        size=none,
        op=none,
    )
    batch = transformer.to_device(made, model, where)

    def both_ways() -> None:
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        loss(transformer.forward(model, batch, name), batch.labels).backward()
        model.zero_grad()

    requested = nullcontext() if backend is None else attention.use_backend(backend)
    try:
        with products(name), requested:
            seconds = _seconds(both_ways, where)
    except torch.OutOfMemoryError:
        return {"ms": None, "peak_gb": None}
    peak = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None
    return {"ms": round(1e3 * seconds, 3), "peak_gb": peak}


def wait(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def rates(device: str) -> dict[str, float]:
    """TFLOP/s of a large product of random matrices in each precision, and TB/s of a copy, read and write counted."""
    where, size = torch.device(device), 8192 if device == "cuda" else 512
    measured = {}
    a, b = torch.randn(2, size, size, device=where)
    for name in PRECISIONS if device == "cuda" else ["fp32"]:
        x, y = (a.bfloat16(), b.bfloat16()) if name == "bf16" else (a, b)
        with products(name):
            measured[f"{name} TFLOP/s"] = 2 * size**3 / _seconds(partial(torch.matmul, x, y), where) / 1e12
    big = torch.empty(2**28 if device == "cuda" else 2**22, device=where)
    other = torch.ones_like(big)
    measured["copy TB/s"] = 8 * big.numel() / _seconds(partial(big.copy_, other), where) / 1e12
    return {name: round(value, 4) for name, value in measured.items()}


def _seconds(call: Callable[[], object], where: torch.device) -> float:
    """The median time of five calls, after two warm-up calls."""
    took = []
    for _ in range(7):
        wait(where)
        start = time.perf_counter()
        call()
        wait(where)
        took.append(time.perf_counter() - start)
    return statistics.median(took[2:])


def generation(device: str) -> dict[str, float | str]:
    """Rows per second of `ape gen tree-rotate` on all cores, including the start of the processes.

    If the command line does not work on this machine, the result is its error message.
    """
    rows, cores = ROWS[device], len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        words = ["gen", "tree-rotate", "--n", str(rows), "--workers", str(cores), "--out", str(Path(folder) / "made")]
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "ape_cli", *words], check=False, capture_output=True, text=True)
        took = time.perf_counter() - start
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return {"rows": float(rows), "cores": float(cores), "rows_per_second": round(rows / took)}
