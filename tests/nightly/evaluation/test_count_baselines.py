"""Baselines of a dataset in an object store, and of one that several processes score at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pytest

from ape_cli import tasks
from ape_cli.core.errors import PlaceError
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.count_baselines import count_baselines
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path
from tests.conftest import write
from tests.interpreters import started
from tests.nightly.store import Server, serving

PROCESSES = 4
CODE = """
import os, sys, time
from pathlib import Path
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation import count_baselines

count = count_baselines._counted
def counted(*arguments):
    print("counted")
    return count(*arguments)

count_baselines._counted = counted
here, processes = Path(sys.argv[1]), int(sys.argv[2])
data = open_dataset(here / "data")
Path(here, f"ready-{os.getpid()}").touch()
while len(list(here.glob("ready-*"))) < processes:
    time.sleep(0.01)
print(count_baselines.count_baselines(data, "test").model_dump_json())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        found.bucket("baselines")
        yield found


def test_a_dataset_in_an_object_store(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scores are those of the same dataset in a folder. They are counted once, unless the store is read-only."""
    local = write(tmp_path / "data", "tree-ops", "depth", rows=(200, 20, 20))
    expected = count_baselines(local, "test")
    out = storage_path(f"s3://baselines/data?endpoint_override={server.endpoint}")
    task = tasks.make("tree-ops", "depth", depth_mean=3, depth_std=1)
    generation.generate(task, local.plan, out)

    def fail(*arguments: object) -> Never:
        raise PlaceError("access is denied", got="the store", fix="use other keys")

    with monkeypatch.context() as patch:
        patch.setattr(RemotePath, "upload", fail)
        assert count_baselines(open_dataset(out), "test") == expected
    assert "baselines/test.json" not in server.objects("baselines/data")
    assert count_baselines(open_dataset(out), "test") == expected
    assert (
        server.get("baselines/data/baselines/test.json") == (tmp_path / "data" / "baselines" / "test.json").read_bytes()
    )
    monkeypatch.setattr("ape_cli.evaluation.count_baselines._counted", fail)
    assert count_baselines(open_dataset(out), "test") == expected


def test_one_of_several_processes_counts(tmp_path: Path) -> None:
    write(tmp_path / "data", "copy", rows=(20_000, 10, 10), length_mean=50)
    processes = [started("-c", CODE, str(tmp_path), str(PROCESSES)) for _ in range(PROCESSES)]
    lines = [line for process in processes for line in process.communicate(timeout=300)[0].splitlines()]
    assert lines.count("counted") == 1
    assert len(lines) == PROCESSES + 1
    assert len(set(lines)) == 2
    assert [path.name for path in (tmp_path / "data" / "baselines").iterdir()] == ["test.json"]
