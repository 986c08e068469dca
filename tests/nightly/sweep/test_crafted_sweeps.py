"""Crafted files of sweeps cost a moment: one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import UsageError
from ape_cli.runs.registry import open_registry
from ape_cli.sweep import planning, specification
from tests.nightly.limits import ape

SWEEPS: dict[str, tuple[Callable[[], str], str]] = {
    "a billion trials": (
        lambda: (
            'schemes = ["rope"]\ntasks = ["copy"]\n[set]\n'
            + "\n".join(
                f"{key} = [{', '.join(f'0.{i:03d}' for i in range(600))}]" for key in ("dropout", "decay", "lr_peak")
            )
        ),
        "too many trials",
    ),
    "a dotted key": (lambda: "a." * 8_000 + "b = 1", "names no schemes|unknown field|is not TOML"),
    "nested lists": (lambda: "a = " + "[" * 5_000, "is not TOML"),
    "a large file": (lambda: "#" * 20_000, "more than 16,384 bytes"),
    "a long word": (lambda: f'x = "{"a" * 16_000}"', "unknown field of a sweep"),
    "hexadecimal schemes": (lambda: f'tasks = ["copy"]\nschemes = ["rope", 0x{"f" * 6000}]', "bad schemes.1"),
    "hexadecimal seeds": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [0x{"f" * 6000}]',
        "bad seeds",
    ),
    "a hexadecimal set": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nset = 0x{"f" * 6000}',
        "`set` is not a table",
    ),
    "a hexadecimal grid": (lambda: f"grid = 0x{'f' * 6000}", "`grid` is not a list"),
    "a hexadecimal setting": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nset = {{ decay = 0x{"f" * 6000} }}',
        "bad set.decay",
    ),
    "a large number": (lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [{"9" * 4000}]', "seed"),
    "a larger number": (lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [{"9" * 5000}]', "is not TOML|digits"),
}


@pytest.mark.parametrize("which", SWEEPS)
def test_crafted_sweeps(tmp_path: Path, which: str) -> None:
    make, message = SWEEPS[which]
    path = tmp_path / "x.toml"
    path.write_text(make())
    start = time.perf_counter()

    def planned() -> object:
        trials = specification.points([specification.check(fields) for fields in specification.read(path)], "tiny")
        return planning.plan(trials, open_registry(tmp_path), tmp_path)

    with pytest.raises(UsageError, match=message) as caught:
        planned()
    assert len(str(caught.value)) < 2000
    assert time.perf_counter() - start < 5


def test_a_large_sweep_is_listed_in_time(tmp_path: Path) -> None:
    words = ["--schemes", "rope", "--tasks", "copy", "--preset", "tiny", "--seeds", "0-9999"]
    assert len(json.loads(ape("sweep", *words, "--dry-run", "--json", where=tmp_path).out)["trials"]) == 10_000


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000, 2**63], ids=["400", "-400", "5000", "63"])
def test_whole_numbers_that_no_option_can_be(value: int) -> None:
    """Such a number is no float, and Python does not even print the longest ones. JSON and TOML can hold them."""
    for make in (
        lambda: tasks.make("copy", length_mean=value),
        lambda: tasks.make("copy", length_std=value),
        lambda: tasks.make("copy", sizes=(5, value)),
        lambda: tasks.make("copy", vocabulary=value),
        lambda: plugins.checked("decay", value, 0.98),
        lambda: plugins.checked("window", value, 16),
    ):
        with pytest.raises(UsageError, match=r"bad \w+\n  got:     a whole number of [\d,]+ bits"):
            make()
