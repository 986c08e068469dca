"""The estimate of memory is below what a step really needs, and a process with too little memory says so."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import interpreters
from tests.conftest import ape

STEP = """
import gc, re, sys, torch
from pathlib import Path
from ape_cli import attention, position
from ape_cli.models.transformer import Transformer, loss
from ape_cli.training.least_memory import least_bytes
scheme, kind, dropout, decay, rows, count = sys.argv[1:]
rows, count = int(rows), int(count)
torch.set_num_threads(1)
made = position.make(scheme, d_model=32, heads=4, **({} if decay == "1" else {"decay": float(decay)}))
sizes = {"ids": 9, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2, "dropout": float(dropout)}
model = Transformer(made, attention_type=attention.make(kind), **sizes)
def status(name):
    return 1024 * int(re.search(rf"{name}:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
def step(count):
    ids, at = torch.randint(3, 9, (rows, count)), torch.arange(1, count + 1)[None]
    loss(model(ids, at, torch.ones_like(ids, dtype=torch.bool), ids, at), ids).backward()
step(8)
gc.collect()
Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
before = status("VmRSS")
step(count)
print(least_bytes(model, (rows, count, count), torch.device("cpu"), torch.float32), status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
@pytest.mark.parametrize(
    ("words", "share"),  # scheme, kind, dropout, locality bias, rows, tokens; the least share of the peak
    [
        ("none dot 0 1 1 5000", 0.7),  # torch's kernel with a mask
        ("none dot 0.1 1 2 1200", 0.2),  # all scores are in memory, several times
        ("t5 dot 0 1 4 800", 0.5),
        ("t5 dot 0 1 2 2500", 0.01),  # in blocks
        ("alibi dot 0 1 2 2500", 0.01),
        ("rope dot 0 0.98 4 800", 0.5),
        ("transformer-xl dot 0 1 2 800", 0.1),
        ("none euclidean 0 1 2 800", 0.1),
        ("none softmax-free 0 1 2 800", 0.1),
        ("none linear 0 1 2 4000", 0.05),
        ("none clustered 0 1 2 2000", 0.05),
    ],
)
def test_the_estimate_is_below_the_peak(words: str, share: float) -> None:
    """It would refuse runs that fit if it were above."""
    done = subprocess.run([sys.executable, "-c", STEP, *words.split()], capture_output=True, text=True, check=True)
    least, peak = map(int, done.stdout.split())
    assert share * peak <= least <= peak


def test_rows_of_60000_tokens_end_in_one_message(tmp_path: Path) -> None:
    """With 4 GB of addresses, some runs are refused, and the others run out of memory."""
    data = str(tmp_path / "data")
    ape("gen", "copy", "--length-mean", "59000", "--length-std", "100", "--n", "4", "--out", data)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, 4 * 10**9))

    def train(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "ape_cli", "train", "--data", data, "--preset", "tiny", "--device", "cpu"]
        environment = os.environ | {"PYTHONPATH": str(interpreters.ROOT)}
        done = subprocess.run(
            [*command, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            preexec_fn=limited,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert done.stderr.count("error:") == 1
        return done.returncode, done.stderr

    code, printed = train("--scheme", "none", "--set", "batch_size=2")
    assert code == 2
    assert "more memory than this machine has" in printed
    assert not list(tmp_path.glob("results/runs/*"))
    code, printed = train("--scheme", "alibi", "--set", "batch_size=1", "--set", "encoder_layers=1")
    assert code == 1
    assert "this machine has not enough memory" in printed
    assert "batches of 1 row" in printed
