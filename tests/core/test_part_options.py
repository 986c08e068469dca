"""The options of parts that are not of this package: their names and their types."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.data import position_maps
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs import config
from ape_cli.runs.config import parse_settings, parse_values

SCHEME = """
from __future__ import annotations

from typing import Literal, Optional

from ape_cli.position import Scheme


class Mine(Scheme):
    def __init__(
        self, shape, kind: Literal["a", "b"] = "a", width: Optional[int] = None, sizes: tuple[int, ...] = (1,),
        names: list[str] | None = None, rate: float = 1, plain=2, unknown: Missing = 3, needed: bool | None = None,
    ):
        super().__init__(shape)
        self.options = kind, width, sizes, names, rate, plain, unknown, needed
"""
PARTS = {
    "position": (position, "Scheme"),
    "attention": (attention, "AttentionType"),
    "data/position_maps": (position_maps, "PositionSampler"),
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes the file of a part `mine-own`."""
    written = []

    def of(folder: str, text: str) -> None:
        package = PARTS[folder][0]
        file = tmp_path / folder / "mine_own.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(file.parent)])
        package.load.cache_clear()
        written.append((package, sys.modules.pop(f"{package.__name__}.mine_own", None)))

    yield of
    for package, _ in written:
        package.load.cache_clear()
        sys.modules.pop(f"{package.__name__}.mine_own", None)


def resolve(scheme: str = "rope", **settings: Any) -> config.Config:
    return ExperimentSpec(preset="tiny", scheme=scheme, set=settings).config("sequence")


@pytest.mark.parametrize(
    ("typed", "stored", "made"),
    [
        ("kind=b", "b", "b"),
        ("width=3", 3, 3),
        ("sizes=1,2", [1, 2], (1, 2)),
        ("sizes=4", [4], (4,)),
        ("names=a, b", ["a", "b"], ["a", "b"]),
        ("rate=0.5", 0.5, 0.5),
        ("rate=2", 2.0, 2.0),
        ("unknown=5", 5, 5),
    ],
)
def test_a_value_is_read_as_its_annotation_has_it(write: Any, typed: str, stored: Any, made: Any) -> None:
    """The configuration holds what JSON can. The scheme gets what its annotation names, from either."""
    write("position", SCHEME)
    settings = parse_settings([typed])
    found = resolve("mine-own", **settings).scheme_options
    assert repr(found) == repr({next(iter(settings)): stored})
    names = list(position.options("mine-own"))
    for given in (settings, found):
        scheme = position.make("mine-own", 8, 2, **given)
        assert repr(scheme.options[names.index(next(iter(settings)))]) == repr(made)  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("settings", "allowed", "fix"),
    [
        ({"kind": "c"}, "a or b", 'the default is "a"'),
        ({"width": True}, "a whole number or none", "the default is null"),
        ({"sizes": [1, True]}, "tuple[int, ...]", "the default is [1]"),
        ({"names": [1]}, "list[str] or none", "the default is null"),
        ({"rate": float("nan")}, "a finite number", "the default is 1"),
        ({"plain": 2.5}, "a whole number", "the default is 2"),
    ],
)
def test_a_value_of_another_type_is_refused(write: Any, settings: dict[str, Any], allowed: str, fix: str) -> None:
    write("position", SCHEME)
    for ask in (lambda: resolve("mine-own", **settings), lambda: position.make("mine-own", 8, 2, **settings)):
        with pytest.raises(UsageError, match=f"bad {next(iter(settings))}") as caught:
            ask()
        assert (caught.value.allowed, caught.value.fix) == (allowed, fix)


def test_a_sweep_tries_lists() -> None:
    assert parse_values(["sizes=[1,2],[3]", "kind=a,b"]) == {"sizes": [[1, 2], [3]], "kind": ["a", "b"]}


@pytest.mark.parametrize("folder", PARTS)
def test_an_option_with_the_name_of_a_setting_is_refused(write: Any, folder: str) -> None:
    """It could not be set: `--set` would change the model."""
    package, base = PARTS[folder]
    first = "self, shape" if folder == "position" else "self"
    text = f"class Mine({base}):\n    def __init__({first}, steps=1):\n        pass\n"
    text += "    def attend(self, *_): ...\n" if folder == "attention" else "    def positions(self, *_): ...\n"
    write(folder, f"from {package.__name__} import {base}\n\n\n{text}")
    field = {"position": "scheme", "attention": "attention", "data/position_maps": "positions"}[folder]
    with pytest.raises(UsageError, match="mine-own has the name of a setting") as caught:
        ExperimentSpec(preset="tiny", **{"scheme": "rope"} | {field: "mine-own"}).config("sequence")
    assert caught.value.got == "steps"
