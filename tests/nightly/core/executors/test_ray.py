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
        "start",
        "--block",
        "--num-cpus=1",
        "--node-ip-address=127.0.0.1",
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


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A cluster that only one test uses, and may damage."""
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
    found = processes(b"ray::_batch")
    return [number for number in found if Path("/proc", str(number), "cwd").readlink() == folder]


def processes(command: bytes) -> list[int]:
    """Returns the ids of the processes whose command line contains these bytes."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and command in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def kill_in(node: subprocess.Popen[bytes], command: bytes) -> None:
    """Kills the processes of a node whose command line contains these bytes. There is at least one."""
    found = [number for number in processes(command) if os.getpgid(number) == node.pid]
    assert found
    for number in found:
        os.kill(number, signal.SIGKILL)


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
    assert len(one) == 9 + 10 + 10 + 2  # shards of 900, 1,000 and 1,000 rows, the manifest and the card
    assert others == [one, one]
    for name in ("one", "ray"):  # nodes need no image source, because the images are sent to them
        done = cluster.ape(tmp_path, "gen", "images", "--shard-rows", "200", *ways[name], "--out", f"images-{name}")
        _, err = done.communicate(timeout=120)
        assert done.returncode == 0, err
    one, other = (manifest.read_manifest(tmp_path / f"images-{name}") for name in ("one", "ray"))
    assert one == other


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
    until(lambda: list(tmp_path.glob("results/runs/*/state/state.safetensors")), done)  # written at a validation
    done.send_signal(signal.SIGINT)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 130, err
    (run,) = open_registry(tmp_path / "results")
    assert run.status == "stopped"
    stored = run.load_state()
    assert stored is not None
    assert 0 < stored[1]["step"] < 3000


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--address", "garbage", "bad `address`"),
        ("--address", "me:GEHEIM@host", "bad `address`"),
        ("--cpus-per-trial", "inf", "bad cpus_per_trial"),
        ("--gpus-per-trial", "1.5", "bad `gpus_per_trial`"),
    ],
)
def test_bad_usage(here: Path, option: str, value: str, message: str) -> None:
    """A secret in an address is not shown."""
    words = ["--schemes", "rope", "--tasks", "copy", "--engine", "ray", option, value, "--device", "cpu", "--dry-run"]
    said = "".join(ape("sweep", *words, code=2))
    assert message in said
    assert "GEHEIM" not in said
    assert not list(here.iterdir())


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    nowhere = Cluster("127.0.0.1:9", [])
    done = nowhere.ape(tmp_path, "sweep", *GRID, "--engine", "ray", "--address", nowhere.address)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 1
    assert "cannot join the Ray cluster" in err
    assert "Traceback" not in err


def test_a_worker_is_killed_and_a_node_stopped_and_every_trial_is_there_once(
    tmp_path: Path, own_cluster: Cluster
) -> None:
    cluster = own_cluster
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


def test_the_board_is_killed_and_made_again(tmp_path: Path, cluster: Cluster) -> None:
    """The sweep goes on, and what the trials report afterwards arrives."""
    words = ["sweep", *GRID, "--set", "steps=100", "--trials-per-task", "1"]
    sweep = cluster.ape(tmp_path, *words, "--engine", "ray", "--address", cluster.address)
    until(lambda: len(finished(tmp_path / "results")) >= 1, sweep)
    (board,) = processes(b"ray::_Board")
    os.kill(board, signal.SIGKILL)
    out, err = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, err
    assert "8 trials: 8 finished; 8 trained now" in out
    assert ": started\n" in err.partition("finished after")[2]
    assert "Traceback" not in err
    assert "raylet" not in err


@pytest.mark.parametrize("killed", [b"/raylet/raylet", b""], ids=["raylet", "head"])
def test_a_cluster_that_is_lost(tmp_path: Path, own_cluster: Cluster, killed: bytes) -> None:
    """There is one message, and the same command continues on another cluster."""
    words = ["sweep", *GRID, "--schemes", "rope", "--set", "steps=150"]
    on_ray = ["--engine", "ray", "--address", own_cluster.address, "--trials-per-task", "1"]
    sweep = own_cluster.ape(tmp_path, *words, *on_ray)
    until(lambda: len(finished(tmp_path / "results")) >= 1, sweep)
    if killed:
        kill_in(own_cluster.nodes[0], killed)
    else:
        stop(own_cluster.nodes[0])
    _, err = sweep.communicate(timeout=120)
    assert sweep.returncode == 1, err
    assert err.count("error: the Ray cluster was lost\n") == 1, err
    assert "run the same command again to continue" in err
    assert "Traceback" not in err
    assert "raylet" not in err
    before = finished(tmp_path / "results")
    assert 1 <= len(before) < 4
    again = own_cluster.ape(tmp_path, *words, "--workers", "2")
    out, err = again.communicate(timeout=300)
    assert f"4 trials: 4 finished; {4 - len(before)} trained now" in out, err
    after = finished(tmp_path / "results")
    assert {name: after[name] for name in before} == before


def test_a_second_ctrl_c_ends_trials_in_a_long_step(tmp_path: Path, cluster: Cluster) -> None:
    words = ["--seeds", "1", "--engine", "ray", "--address", cluster.address]
    interrupt_twice(tmp_path, words, **KNOWN)
    until(lambda: not workers(tmp_path))
