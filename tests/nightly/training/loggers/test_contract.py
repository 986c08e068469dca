"""A user's own metric logger, as a file and as an entry point, in processes of their own."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import elsewhere

OWN = '''
from ape_cli.training.loggers import MetricLogger, is_validation


class Count(MetricLogger):
    """Counts what it is given."""

    def __init__(self, run):
        self.run, self.counts = run, {True: 0, False: 0}

    def log(self, step, metrics):
        self.counts[is_validation(metrics)] += 1

    def close(self):
        self.run.folder.mkdir(parents=True, exist_ok=True)
        (self.run.folder / "counts.txt").write_text(f"{self.counts[True]} {self.counts[False]}")
'''


def test_a_logger_of_one_s_own_is_one_new_file(tmp_path: Path) -> None:
    """Found in a folder on the path, and used by `ape train` and by the workers of `ape sweep`."""
    run = elsewhere(tmp_path, "ape_cli/training/loggers/my_count.py", OWN)
    sizes = ("--preset", "tiny", "--device", "cpu", "--set", "steps=20", "--set", "validate_every_steps=5")
    run("train", "--scheme", "rope", "--task", "copy", "--log", "my-count", *sizes)
    run("sweep", "--schemes", "none", "--tasks", "copy", "--log", "my-count", "--workers", "1", *sizes)
    written = sorted((tmp_path / "results" / "runs").glob("*/logs/counts.txt"))
    assert [path.read_text() for path in written] == ["4 2", "4 2"]
    assert "did you mean 'my-count'" in run("train", "--scheme", "rope", "--log", "my-coun", *sizes, code=2).stderr


def test_an_entry_point_is_a_logger(tmp_path: Path) -> None:
    """`my_count.py` is a module of an installed distribution here, in no folder of ours."""
    site = tmp_path / "mine"
    (site / "count-1.0.dist-info").mkdir(parents=True)
    (site / "count-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: count\nVersion: 1.0\n")
    (site / "count-1.0.dist-info" / "entry_points.txt").write_text("[ape_cli.loggers]\nmy-count = my_count:Count\n")
    run = elsewhere(tmp_path, "my_count.py", OWN)
    words = ("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", "--device", "cpu", "--set", "steps=4")
    run(*words, "--log", "my-count")
    (path,) = (tmp_path / "results" / "runs").glob("*/logs/counts.txt")
    assert path.read_text() == "1 1"
