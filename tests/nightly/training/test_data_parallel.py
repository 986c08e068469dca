"""Two ranks that train one run: real processes on loopback, which are stopped, diverge or fail."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
from pathlib import Path

import polars as pl
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from ape_cli.cli import app
from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from tests import interpreters
from tests.conftest import write


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def begin(here: Path, *words: str, command: str = "train") -> subprocess.Popen[str]:
    """`torchrun --nproc-per-node 2 -m ape_cli -- train …`"""
    launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), "-m", "ape_cli")
    return interpreters.started(*launch, "--", command, *words, where=here)


def two(here: Path, *words: str) -> list[tuple[int, str, str]]:
    """Two ranks of `ape train`; see `ranked`."""
    return ranked("-m", "ape_cli", "train", *words, here=here)


def ranked(*words: str, here: Path, largest: int | None = None) -> list[tuple[int, str, str]]:
    """Two ranks with only the environment variables of another launcher. Returns exit status, stdout and stderr of
    each.

    `largest`: bytes of a file that they may write.
    """
    both = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    ranks = [interpreters.started(*words, where=here, RANK=rank, LOCAL_RANK=rank, **both) for rank in ("0", "1")]
    for process in ranks if largest else ():
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, largest))
    said = [process.communicate(timeout=120) for process in ranks]
    return [(process.returncode, *streams) for process, streams in zip(ranks, said, strict=True)]


def trained(results: Path) -> tuple[dict[str, torch.Tensor], pl.DataFrame]:
    """The weights and the history (without times) of the only run."""
    (folder,) = (results / "runs").iterdir()
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    history = pl.read_parquet(folder / "history.parquet").drop("seconds")
    return weights, history.select(sorted(history.columns))


def test_two_ranks_come_to_what_one_process_comes_to(tmp_path: Path) -> None:
    """Batches of 7 out of 113 rows: each epoch has a batch of a single row, which belongs to the first rank."""
    write(tmp_path / "words", "reverse", rows=(113, 36, 20))
    words = ["--scheme", "rope", "--data", str(tmp_path / "words"), "--preset", "tiny", "--json"]
    words += ["--set", "batch_size=7", "--log", "json-lines"]  # torchrun has options that begin with --log
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
    logs = [next((tmp_path / name).glob("runs/*/logs/metrics.jsonl")).read_text() for name in ("one", "two")]
    lines = [[json.loads(line)["step"] for line in log.splitlines()] for log in logs]
    assert lines[0] == lines[1] != []
    assert err.count("training reverse-rope") == 1  # only the first rank is heard
    assert "in 2 processes on cpu" in err
    assert "Warning" not in err


def test_one_of_several_processes_answers(words: Dataset, tmp_path: Path) -> None:
    """A dry run, and an error of the command line."""
    given = ("--data", str(words.folder), "--preset", "tiny", "--scheme", "rope")
    (code, out, err), other = two(tmp_path, *given, "--dry-run", "--json")
    assert (code, other) == (0, (0, "", ""))
    assert json.loads(out)["state"] == "new"
    assert err.count("training rows") == 1
    (code, *first), (_, *second) = two(tmp_path, *given, "--set", "depth=1")
    assert code == 2
    assert "".join(first + second).count("error: ") == 1


LONG = ["--scheme", "rope", "--task", "reverse", "--preset", "tiny", "--seed", "5", "--set", "dropout=0.1",
        "--set", "steps=120", "--set", "validate_every_steps=10", "--no-eval"]  # fmt: skip


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


def test_ranks_that_diverge_say_so_once(words: Dataset, tmp_path: Path) -> None:
    ended = two(tmp_path, *WILD, "--data", str(words.folder))
    assert "the loss is no longer a number" in failed(ended, tmp_path / "results")


def test_what_the_first_rank_cannot_store_ends_both(words: Dataset, tmp_path: Path) -> None:
    """After an error in only one rank, the other one, which waits for it, ends too and leaves the reason to it."""
    tiny = ("train", "--scheme", "rope", "--preset", "tiny", "--data", str(words.folder))
    ended = ranked("-c", interpreters.STORING, *tiny, here=tmp_path, largest=20_000)
    assert "error: cannot write" in ended[0][2]
    assert "File too large" in failed(ended, tmp_path / "results", "stopped")
