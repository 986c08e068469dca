"""Crafted files of sweeps cost a moment: one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.core import budget, plugins
from ape_cli.core.errors import UsageError
from ape_cli.sweep import specification
from tests.nightly.limits import ape

SWEEPS: dict[str, tuple[Callable[[], str], str]] = {
    "a billion trials": (
        lambda: (
            'schemes = ["rope"]\ntasks = ["copy"]\n[set]\n'
            + "\n".join(
                f"{key} = [{', '.join(f'0.{i:03d}1' for i in range(1000))}]" for key in ("dropout", "decay", "lr_peak")
            )
        ),
        "too many trials",
    ),
    "a dotted key": (lambda: "a." * 20_000 + "b = 1", "a key with more than 8 parts"),
    "a quoted dotted key": (lambda: '"a" . ' * 20_000 + "b = 1", "a key with more than 8 parts"),
    "nested lists": (lambda: "a = " + "[" * 5_000 + "]" * 5_000, "is not TOML"),
    "nested tables": (lambda: "a = " + "{b=" * 300 + "1" + "}" * 300, "is not TOML"),
    "a large file": (lambda: "#" * 300_000, "more than 262,144 bytes"),
    "a long word in a comment": (lambda: "#" + "a" * 250_000, "names no schemes"),
    "a long word": (lambda: f'x = "{"a" * 250_000}"', "unknown field of a sweep"),
    "a long line of spaces": (lambda: "#" + "a." * 7 + " " * 200_000, "names no schemes"),
    "hexadecimal schemes": (lambda: f'tasks = ["copy"]\nschemes = ["rope", 0x{"f" * 6000}]', "bad schemes.1"),
    "hexadecimal seeds": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nseeds = [0x{"f" * 6000}]',
        "bad value of seed",
    ),
    "a hexadecimal set": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nset = 0x{"f" * 6000}',
        "`set` is not a table",
    ),
    "a hexadecimal grid": (lambda: f"grid = 0x{'f' * 6000}", "`grid` is not a list"),
    "a hexadecimal setting": (
        lambda: f'schemes = ["rope"]\ntasks = ["copy"]\nset = {{ decay = 0x{"f" * 6000} }}',
        "bad value of decay",
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
    with pytest.raises(UsageError, match=message) as caught:
        specification.points([specification.check(fields) for fields in specification.read(path)], "tiny")
    assert len(str(caught.value)) < 2000
    assert time.perf_counter() - start < 5


def test_a_large_sweep_is_listed_in_time(tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(budget.TRIALS)))
    (tmp_path / "x.toml").write_text(f'schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"\nseeds = [{seeds}]\n')
    found = ape("sweep", "x.toml", "--dry-run", "--json", where=tmp_path)
    assert len(json.loads(found.out)["trials"]) == budget.TRIALS


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
