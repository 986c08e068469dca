"""Several processes that train one run: shares of a batch, gradients, dropout, and real processes on loopback."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from torch import distributed
from torch.nn import functional
from typer.testing import CliRunner

from ape_cli import position
from ape_cli.cli import app
from ape_cli.core.errors import RunError, UsageError
from ape_cli.core.vocabulary import PAD
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import metrics
from ape_cli.models import checkpoint, factory, settling
from ape_cli.runs import config
from ape_cli.runs.config import Config
from ape_cli.runs.registry import open_registry
from ape_cli.training import data_parallel
from ape_cli.training.distributed_group import DistributedGroup
from ape_cli.training.execution import Execution
from ape_cli.training.loop import Loop
from ape_cli.training.process_group import SINGLE_PROCESS, ProcessGroup
from tests.conftest import write

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]


class Apart(DistributedGroup):
    """A rank that never needs anything from the others."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size, rank, None)  # type: ignore[arg-type]

    parallel, loaded, sum = ProcessGroup.parallel, ProcessGroup.loaded, ProcessGroup.sum


def tiny(scheme: str, data: Dataset, **settings: Any) -> Config:
    found = config.resolve("tiny", scheme, position.options(scheme), seed=3, settings={"dropout": 0.0} | settings)
    return settling.settle(found, data)


# Shares of a batch


@pytest.mark.parametrize("kind", ["words", "trees"])
def test_shares_are_the_rows_of_the_batch_as_it_is_padded(kind: str, request: pytest.FixtureRequest) -> None:
    data: Dataset = request.getfixturevalue(kind)
    split, seen = data.split("train"), 0
    whole = list(split.batches(17, seed=5))
    shares = [list(split.batches(17, seed=5, share=(i, 3))) for i in range(3)]
    for batch, *parts in zip(whole, *shares, strict=True):
        given = [p for p in parts if p.label_mask.any()]
        assert len(given) == min(3, len(batch.row))
        own = batch.row.argsort()
        together = np.concatenate([p.row for p in given])
        order = together.argsort()
        assert together[order].tolist() == batch.row[own].tolist()
        # all of one length, so that they can be joined
        for name in ("source_ids", "source_mask", "input_ids", "labels"):
            joined = torch.cat([getattr(p, name) for p in given])[torch.from_numpy(order)]
            assert torch.equal(joined, getattr(batch, name)[torch.from_numpy(own)]), name
        symbols = int(batch.label_mask.sum()), int(batch.source_mask.sum())
        assert batch.counts == symbols
        assert all(p.counts == symbols for p in parts)
        seen += len(together)
    assert seen == split.rows


def test_a_share_without_rows_asks_for_nothing(trees: Dataset) -> None:
    """Batches of two rows, of which the third rank has none."""
    for batch in trees.split("train").batches(2, seed=5, share=(2, 3)):
        assert batch.labels.shape[0] == 1
        assert (batch.labels == PAD).all()
        assert batch.source_mask.any()
        assert batch.counts[0] > 0


# Gradients


@pytest.mark.parametrize("batch_size", [2, 8])
@pytest.mark.parametrize("scheme", ["rope", "orthogonal-tree"])
def test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch(
    trees: Dataset, scheme: str, batch_size: int
) -> None:
    """The average over three ranks, of which the third may have no row, compared with the batch in float64."""
    wanted = tiny(scheme, trees, batch_size=batch_size)
    reading = settling.reading(scheme, trees.structure)
    batch = next(trees.split("train").batches(batch_size, seed=1, structure=reading))
    assert len(set(batch.label_mask.sum(1).tolist())) > 1  # otherwise any count of labels would pass
    model = factory.build(wanted, trees.structure, trees.ids).double()
    scores = metrics.forward(model, batch, "fp32")
    functional.cross_entropy(scores.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD).backward()

    total = [torch.zeros_like(p) for p in model.parameters()]
    for rank in range(3):
        loop = Loop(wanted, trees, None, Execution(CPU, group=Apart(rank, 3)))
        loop.setup.model.double()
        loop._train_on(next(trees.split("train").batches(batch_size, seed=1, structure=reading, share=(rank, 3))))
        for added, p in zip(total, loop.setup.model.parameters(), strict=True):
            assert p.grad is not None
            added.add_(p.grad)
    for (name, p), added in zip(model.named_parameters(), total, strict=True):
        assert p.grad is not None
        assert torch.allclose(added / 3, p.grad, rtol=1e-4, atol=1e-7), name  # nats are float32


# Dropout


def test_each_rank_drops_out_on_its_own(words: Dataset) -> None:
    wanted = tiny("rope", words, dropout=0.3)
    batch = next(words.split("train").batches(8, seed=1))

    def drawn(world: ProcessGroup) -> torch.Tensor:
        loop = Loop(wanted, words, None, Execution(CPU, group=world))
        return metrics.forward(loop.setup.model.train(), batch, "fp32").detach()

    alone, *others = (drawn(world) for world in (SINGLE_PROCESS, Apart(0, 3), Apart(1, 3), Apart(2, 3)))
    assert torch.equal(alone, others[0])
    assert torch.equal(drawn(Apart(1, 3)), others[1])  # the same again
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(others[i], others[j], atol=1e-3), (i, j)


def test_a_rank_that_the_state_does_not_know_begins_a_stream() -> None:
    """With the state of two ranks, the second continues with its own, and a third with a new one that depends on the
    step.
    """
    torch.manual_seed(1)
    stored = checkpoint.streams(CPU)
    torch.manual_seed(2)
    stored |= {checkpoint.of_rank(name, 1): value for name, value in checkpoint.streams(CPU).items()}
    assert set(stored) == {"rng.cpu", "rng.cpu.1"}
    draws = []
    for rank, step in ((0, 7), (1, 7), (2, 7), (2, 8)):
        checkpoint.restore_streams(stored, CPU, rank, Apart(rank, 3).seed(42, step))
        draws.append(torch.rand(4))
    for seed, drawn in ((1, draws[0]), (2, draws[1])):
        torch.manual_seed(seed)
        assert torch.equal(torch.rand(4), drawn)
    assert len({tuple(d.tolist()) for d in draws}) == 4


# Roles of ranks


def test_without_torchrun_s_variables_one_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({}, {"RANK": "0", "WORLD_SIZE": "4"}, {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}):
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        with data_parallel.joined() as world:
            assert world is SINGLE_PROCESS


@pytest.mark.parametrize("wrong", [{"RANK": "first"}, {"MASTER_PORT": None}])
def test_variables_that_make_no_sense_are_said(wrong: dict[str, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in (given | wrong).items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="do not find each other"), data_parallel.joined():
        pass


# Real processes


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def begin(here: Path, *words: str) -> subprocess.Popen[str]:
    """`torchrun --nproc-per-node 2 -m ape_cli train …`"""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), "-m", "ape_cli"]
    return subprocess.Popen(
        [sys.executable, *launch, "train", *words],
        cwd=here,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def two(here: Path, *words: str, largest: int | None = None) -> list[tuple[int, str, str]]:
    """Two ranks of `ape train`; see `ranked`."""
    return ranked([sys.executable, "-m", "ape_cli", "train", *words], here, largest)


def ranked(command: list[str], here: Path, largest: int | None = None) -> list[tuple[int, str, str]]:
    """Two ranks with only the environment variables of another launcher. Returns exit status, stdout and stderr of
    each.

    `largest`: bytes of a file that they may write.
    """
    both = {"PYTHONPATH": str(ROOT), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    started = [
        subprocess.Popen(
            command,
            cwd=here,
            env=os.environ | both | {"RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    for process in started if largest else ():
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, largest))
    said = [process.communicate(timeout=120) for process in started]
    return [(process.returncode, *streams) for process, streams in zip(started, said, strict=True)]


def trained(results: Path) -> tuple[dict[str, torch.Tensor], pl.DataFrame]:
    """The weights and the history (without times) of the only run."""
    (folder,) = (results / "runs").iterdir()
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    history = pl.read_parquet(folder / "history.parquet").drop("seconds")
    return weights, history.select(sorted(history.columns))


@pytest.mark.slow
def test_two_ranks_come_to_what_one_process_comes_to(tmp_path: Path) -> None:
    """Batches of 7 out of 113 rows: each epoch has a batch of a single row, which belongs to the first rank."""
    write(tmp_path / "words", "reverse", rows=(113, 36, 20))
    words = ["--scheme", "rope", "--data", str(tmp_path / "words"), "--preset", "tiny", "--json"]
    words += ["--set", "batch_size=7"]
    one = CliRunner().invoke(app, ["train", *words, "--results", str(tmp_path / "one")], catch_exceptions=False)
    process = begin(tmp_path, *words, "--results", "two")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    mine, theirs = json.loads(one.stdout), json.loads(out)
    assert theirs["run"] == mine["run"]
    for name in ("steps", "best_step", "best_accuracy", "parameters"):
        assert theirs[name] == mine[name], name
    assert theirs["test"]["overall"] == pytest.approx(mine["test"]["overall"], abs=1e-5)
    (weights, history), (found, told) = trained(tmp_path / "one"), trained(tmp_path / "two")
    for name, value in weights.items():
        assert torch.allclose(found[name], value, atol=1e-5), name
    assert told.schema == history.schema
    assert told.height == 2
    for column in history.columns:
        assert told[column].to_list() == pytest.approx(history[column].to_list(), abs=1e-5), column
    runs = open_registry(tmp_path / "two").runs()
    assert runs["status"].to_list() == ["finished"]
    about = json.loads((tmp_path / "two" / "runs" / theirs["run"] / "run.json").read_text())
    assert about["processes"] == 2
    assert err.count("training reverse-rope") == 1  # only the first rank is heard
    assert "in 2 processes on cpu" in err
    assert "Warning" not in err


GROUP = """
import sys
from pathlib import Path
import torch
from ape_cli.training import data_parallel

with data_parallel.joined() as world:
    with world.together(torch.device("cpu")):
        model = world.parallel(torch.nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        del model
    print(sum("gloo" in path.read_text() for path in Path("/proc/self/task").glob("*/comm")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_no_thread_of_the_group_outlives_it() -> None:
    """A process that ends while such a thread runs may abort after its work is done."""
    said = ranked([sys.executable, "-c", GROUP], ROOT)
    assert [(code, out) for code, out, _ in said] == [(0, "0\n")] * 2, said


LONG = ["--scheme", "rope", "--task", "reverse", "--preset", "tiny", "--seed", "5", "--set", "dropout=0.1",
        "--set", "steps=120", "--set", "validate_every_steps=10", "--no-eval"]  # fmt: skip


@pytest.mark.slow
def test_stopped_ranks_end_as_if_they_had_not_stopped(tmp_path: Path) -> None:
    straight = two(tmp_path, *LONG, "--results", "straight")
    assert [code for code, *_ in straight] == [0, 0], straight
    assert straight[0][2].count("generated datasets/reverse-tiny") == 1
    assert straight[1][1:] == ("", "")
    with begin(tmp_path, *LONG) as process:
        assert process.stderr is not None
        assert any(line.startswith("step 10/") for line in process.stderr)  # reads no further
        process.send_signal(signal.SIGTERM)  # torchrun passes it on to its processes
        err = process.stderr.read()
        assert process.wait(timeout=60) != 0
    assert err.count("stopped; run the same command with --resume to continue") == 1
    (folder,) = (tmp_path / "results" / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["status"] == "stopped"
    with safetensors.safe_open(folder / "state" / "state.safetensors", "pt") as stored:
        assert {"rng.cpu", "rng.cpu.1"} <= set(stored.keys())
        assert 10 <= json.loads(stored.metadata()["ape"])["step"] < 120
    resumed = two(tmp_path, *LONG, "--resume")
    assert [code for code, *_ in resumed] == [0, 0], resumed
    (weights, history), (found, told) = trained(tmp_path / "straight"), trained(tmp_path / "results")
    for name, value in weights.items():
        assert torch.equal(found[name], value), name
    assert told.equals(history)


def failed(ended: list[tuple[int, str, str]], results: Path, status: str = "failed") -> str:
    """The output of two ranks that failed, in a message of one of them. `status`: that of the run afterwards."""
    assert [code for code, *_ in ended] == [1, 1]
    said = "".join(err for *_, err in ended)
    assert [line[:6] for line in said.splitlines()].count("error:") == 1, said
    assert "Traceback" not in said
    (folder,) = (results / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["status"] == status
    return said


WILD = ["--scheme", "rope", "--preset", "tiny", "--set", "lr_peak=1e30", "--set", "lr_initial=1e30"]


@pytest.mark.slow
def test_ranks_that_diverge_say_so_once(words: Dataset, tmp_path: Path) -> None:
    ended = two(tmp_path, *WILD, "--data", str(words.folder))
    assert "the loss is no longer a number" in failed(ended, tmp_path / "results")


def test_after_an_error_the_process_group_is_freed() -> None:
    """Otherwise its threads run while the process ends, which sometimes aborts it."""
    seen = []

    def train() -> None:
        with DistributedGroup(0, 1, 0, distributed.HashStore()).together(CPU):
            group = distributed.group.WORLD  # as a model in DistributedDataParallel holds it
            seen.append(weakref.ref(group))
            raise RunError("the loss is no longer a number")

    try:
        train()
    except RunError as error:
        assert seen[0]() is not None
        data_parallel._free_group(error)
        assert not distributed.is_initialized()
        assert seen[0]() is None, "the traceback, which is still there, holds it no more"


@pytest.mark.slow
def test_what_the_first_rank_cannot_store_ends_both(words: Dataset, tmp_path: Path) -> None:
    """After an error in only one rank, the other one, which waits for it, ends too and leaves the reason to it."""
    ended = two(tmp_path, "--scheme", "rope", "--preset", "tiny", "--data", str(words.folder), largest=20_000)
    assert "error: cannot write" in ended[0][2]
    assert "File too large" in failed(ended, tmp_path / "results", "stopped")
