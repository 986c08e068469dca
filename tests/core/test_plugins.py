"""Files of a user's own plug-ins, for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from ape_cli import position
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.reports import views

PACKAGES = [position, views]


class Thing:
    """The base class of plug-ins."""

    part_kind = "thing"


@pytest.fixture(params=PACKAGES, ids=lambda package: package.__name__.rpartition(".")[2])
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with one more folder, which is empty."""
    monkeypatch.setattr(request.param, "__path__", [*request.param.__path__, str(tmp_path)])
    return request.param


def test_a_file_whose_stem_is_no_name_is_left_out(package: ModuleType, tmp_path: Path) -> None:
    before = plugins.names(package)
    for name in ("my scheme.py", "my.scheme.py", "-my-scheme.py", ".mine.py", "_mine.py", "mine.txt"):
        (tmp_path / name).write_text("raise AssertionError")
    assert plugins.names(package) == before


def test_a_file_has_one_class(package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base class whose name begins with _ and a second name of a class do not count."""
    text = "from tests.core.test_plugins import Thing\nclass _Base(Thing): ...\nclass Mine(_Base): ...\nOther = Mine\n"
    for stem, code in (("own_none", "x = 1"), ("own_one", text), ("own_two", f"{text}class Another(Mine): ...\n")):
        monkeypatch.delitem(plugins.sys.modules, f"{package.__name__}.{stem}", raising=False)
        (tmp_path / f"{stem}.py").write_text(code)
    assert plugins.load(package, "own-one", Thing).__name__ == "Mine"
    for name, classes in (("own-none", "none"), ("own-two", "Another, Mine")):
        with pytest.raises(UsageError, match="exactly one subclass of Thing") as caught:
            plugins.load(package, name, Thing)
        assert caught.value.got == f"{classes} ({tmp_path / name.replace('-', '_')}.py)"


def test_a_class_without_a_method_that_all_need(package: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "half_one.py").write_text(
        "from abc import abstractmethod\nfrom tests.core.test_plugins import Thing\n"
        "class Mine(Thing):\n    __abstractmethods__ = frozenset({'attend'})\n"
    )
    with pytest.raises(ApeError, match="the class of thing 'half-one' leaves out what every thing needs") as caught:
        plugins.load(package, "half-one", Thing)
    assert caught.value.got == f"no attend ({tmp_path / 'half_one.py'})"


def test_a_description_is_the_first_paragraph_of_the_docstring() -> None:
    """A dataclass without one has its signature as docstring, which describes nothing."""

    @dataclass
    class Plain:
        size: int = 3

    def described() -> None:
        """Two lines
        of text.

        More.
        """

    assert plugins.described(described, "none") == "Two lines of text."
    described.__doc__ = None
    assert [plugins.described(each, "none") for each in (described, Plain)] == ["none", "none"]
