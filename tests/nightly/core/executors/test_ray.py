"""A Ray cluster of two nodes on loopback: if a worker or a node dies, every job is still done with the same result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ape_cli.data import manifest
from ape_cli.runs.registry import open_registry
from tests.conftest import ROOT, ape
from tests.interpreters import started, until
from tests.nightly.sweep.test_sweep import interrupt_twice
from tests.sweep.test_sweep import facts

KNOWN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "RAY_USAGE_STATS_ENABLED": "0"}
GRID = ["--schemes", "rope,tree", "--tasks", "tree-copy,tree-rotate", "--orders", "breadth"]
GRID += ["--seeds", "1-2", "--preset", "tiny", "--device", "cpu"]


@dataclass
class Cluster:
    address: str
    nodes: list[subprocess.Popen[bytes]]

    def ape(self, folder: Path, *words: str) -> subprocess.Popen[str]:
        return started("-m", "ape_cli", *words, where=folder, OMP_NUM_THREADS="1", **KNOWN)


@contextmanager
def starting() -> Iterator[Cluster]:
    """Starts two nodes of one CPU each, as two machines would. The last entry of `nodes` is the second node."""
    folder = tempfile.mkdtemp(prefix="ape-ray-", dir="/tmp")  # paths of sockets must be short
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | KNOWN | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ray = [
        str(Path(sys.executable).with_name("ray")),
        *["start", "--block", "--num-cpus=1", "--node-ip-address=127.0.0.1"],
    ]
    ends = [
        ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"],
        [f"--address=127.0.0.1:{port}"],
    ]
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        for end in ends:
            log = Path(folder, f"node{len(nodes)}.log")
            with log.open("wb") as out:
                nodes.append(
                    subprocess.Popen([*ray, *end], env=environment, stdout=out, stderr=out, start_new_session=True)
                )
            until(lambda log=log: b"Ray runtime started" in log.read_bytes(), nodes[-1])
        yield Cluster(f"127.0.0.1:{port}", nodes)
    finally:
        for node in nodes:
            stop(node)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with starting() as found:
        yield found


def stop(node: subprocess.Popen[bytes]) -> None:
    """Kills a node and all processes that it started."""
    if node.poll() is None:
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()


def finished(results: Path) -> dict[str, Any]:
    """The result of each finished run, with the seconds that it took."""
    records = {run.name: run.read() for run in open_registry(results) if (run.folder / "run.json").exists()}
    return {name: record.outcome for name, record in records.items() if record.status == "finished"}


def workers(folder: Path) -> list[int]:
    """Returns the ids of the Ray processes that run batches with this working directory."""
    numbers = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"ray::_batch" in (process / "cmdline").read_bytes() and (process / "cwd").readlink() == folder:
                numbers.append(int(process.name))
    return numbers


def test_generation_gives_the_same_bytes_on_every_engine(tmp_path: Path, cluster: Cluster) -> None:
    words = ["gen", "tree-rotate", "--n", "900", "--shard-rows", "100", "--depth-mean", "4", "--json"]
    ways = {
        "one": ["--workers", "1"],
        "four": ["--workers", "4"],
        "ray": ["--engine", "ray", "--address", cluster.address],
    }
    for name, way in ways.items():
        done = cluster.ape(tmp_path, *words, *way, "--out", name)
        out, err = done.communicate(timeout=120)
        assert done.returncode == 0, err
        assert json.loads(out)["fingerprint"] == manifest.read_manifest(tmp_path / name).fingerprint
    one, *others = ({p.name: p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()} for name in ways)
    assert others == [one, one]


def test_a_trial_that_no_node_can_hold_and_one_that_is_interrupted(tmp_path: Path, cluster: Cluster) -> None:
    """A trial that fits no node is an error. An interrupted trial stores its state, so that it can resume."""
    words = ["sweep", "--schemes", "rope", "--tasks", "copy", "--preset", "tiny", "--device", "cpu"]
    words += ["--set", "steps=3000", "--engine", "ray", "--address", cluster.address]
    done = cluster.ape(tmp_path, *words, "--cpus-per-trial", "64")
    _, err = done.communicate(timeout=120)
    assert done.returncode == 2
    assert "no node of the Ray cluster has room for a trial" in err
    assert "1 CPUs, 0 GPUs; 1 CPUs, 0 GPUs" in err

    done = cluster.ape(tmp_path, *words)
    until(lambda: list(tmp_path.glob("results/runs/*/run.json")), done)
    done.send_signal(signal.SIGINT)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 130, err
    (run,) = open_registry(tmp_path / "results")
    assert run.status == "stopped"
    stored = run.load_state()
    assert stored is not None
    assert 0 < stored[1]["step"] < 3000


@pytest.mark.parametrize(("option", "value"), [("--address", "me:GEHEIM@host"), ("--gpus-per-trial", "1.5")])
def test_bad_usage(here: Path, option: str, value: str) -> None:
    """A secret in an address is not shown."""
    words = ["--schemes", "rope", "--tasks", "copy", "--engine", "ray", option, value, "--device", "cpu", "--dry-run"]
    said = "".join(ape("sweep", *words, code=2))
    assert f"bad `{option}`" in said
    assert "GEHEIM" not in said


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    nowhere = Cluster("127.0.0.1:9", [])
    done = nowhere.ape(tmp_path, "sweep", *GRID, "--engine", "ray", "--address", nowhere.address)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 1
    assert "cannot join the Ray cluster" in err
    assert "Traceback" not in err


def test_a_second_ctrl_c_ends_trials_in_a_long_step(tmp_path: Path, cluster: Cluster) -> None:
    words = ["--seeds", "1", "--engine", "ray", "--address", cluster.address]
    interrupt_twice(tmp_path, words, **KNOWN)
    until(lambda: not workers(tmp_path))


def test_a_worker_is_killed_and_a_node_stopped_and_every_trial_is_there_once(tmp_path: Path, cluster: Cluster) -> None:
    words = ["sweep", *GRID, "--set", "steps=100"]
    sweep = cluster.ape(tmp_path, *words, "--engine", "ray", "--address", cluster.address, "--json")
    until(lambda: len(finished(tmp_path / "results")) >= 2, sweep)
    until(lambda: len(workers(tmp_path)) == 2, sweep)
    os.kill(workers(tmp_path)[0], signal.SIGKILL)
    until(lambda: len(finished(tmp_path / "results")) >= 4, sweep)
    stop(cluster.nodes[-1])
    before = finished(tmp_path / "results")
    assert len(before) < 8
    out, err = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, err
    assert [end["state"] for end in json.loads(out)["trials"]] == ["finished"] * 8
    assert "starts again, because its process or its node was lost" in err
    ray = finished(tmp_path / "results")
    assert len(ray) == 8
    assert len(list((tmp_path / "results" / "runs").iterdir())) == 8
    assert {name: ray[name] for name in before} == before  # none of them was trained twice

    local = cluster.ape(tmp_path, *words, "--results", "local", "--threads", "1")
    assert "8 trials: 8 finished; 8 trained now" in local.communicate(timeout=300)[0]
    assert facts(tmp_path / "results") == facts(tmp_path / "local")
