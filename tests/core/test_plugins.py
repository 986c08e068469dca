"""Files of a user's own plug-ins that are no plug-ins: what is said about them, for each kind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from ape_cli import attention, position, tasks
from ape_cli.core import executors, plugins
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.data import position_maps
from ape_cli.reports import pictures, views
from ape_cli.storage import tree_formats
from ape_cli.training import loggers

PACKAGES = [position, tasks, attention, position_maps, loggers, tree_formats, views, pictures, executors]


class Thing:
    """The base class of plug-ins."""

    part_kind = "thing"


@pytest.fixture(params=PACKAGES, ids=lambda package: package.__name__.rpartition(".")[2])
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with one more folder, which is empty."""
    monkeypatch.setattr(request.param, "__path__", [*request.param.__path__, str(tmp_path)])
    return request.param


@pytest.mark.parametrize("stem", ["my scheme", "my.scheme", "mý,scheme", "-my-scheme"])
def test_a_file_whose_stem_is_no_name(package: ModuleType, tmp_path: Path, stem: str) -> None:
    """It is named with its path if it is asked for; the others work."""
    before = plugins.names(package)
    file = tmp_path / f"{stem}.py"
    for name in (file.name, ".my scheme.py", "_my scheme.py", "my scheme.txt"):
        (tmp_path / name).write_text("raise AssertionError")
    assert plugins.names(package) == before
    with pytest.raises(UsageError) as caught:
        plugins.load(package, stem, Thing)
    error = caught.value
    assert (error.got, error.fix) == (file, "rename it, for example to my_scheme.py")


def test_a_file_without_a_class(package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty_one.py").write_text("x = 1")
    monkeypatch.delitem(plugins.sys.modules, f"{package.__name__}.empty_one", raising=False)
    with pytest.raises(UsageError, match="does not define a subclass of Thing") as caught:
        plugins.load(package, "empty-one", Thing)
    assert caught.value.got == str(tmp_path / "empty_one.py")
    assert "begin the name of a file of shared code with _" in str(caught.value.fix)


def test_a_distribution_that_is_installed_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points are read once, and again after a folder of the Python path has changed."""
    os.utime(tmp_path, (0, 0))
    monkeypatch.syspath_prepend(tmp_path)
    assert "late" not in tasks.names()
    about = tmp_path / "late-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ape_cli.tasks]\nlate = late:Late\n")
    assert "late" in tasks.names()


def test_a_folder_in_place_of_a_file(package: ModuleType, tmp_path: Path) -> None:
    """Nothing is there to be installed."""
    (tmp_path / "empty_folder.py").mkdir()
    with pytest.raises(ApeError, match="cannot be imported") as caught:
        plugins.load(package, "empty-folder", Thing)
    assert str(tmp_path / "empty_folder.py") in str(caught.value.got)
    assert caught.value.fix == "correct the file, or remove it from the path"


def test_a_file_with_two_classes(package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is chosen. A base class whose name begins with _ and a second name of a class do not count."""
    text = "from tests.core.test_plugins import Thing\nclass _Base(Thing): ...\nclass Mine(_Base): ...\nOther = Mine\n"
    for stem, more in (("one_class", ""), ("two_classes", "class Another(Mine): ...\n")):
        monkeypatch.delitem(plugins.sys.modules, f"{package.__name__}.{stem}", raising=False)
        (tmp_path / f"{stem}.py").write_text(text + more)
    assert plugins.load(package, "one-class", Thing).__name__ == "Mine"
    with pytest.raises(UsageError, match="defines several subclasses of Thing") as caught:
        plugins.load(package, "two-classes", Thing)
    assert caught.value.got == f"Another, Mine ({tmp_path / 'two_classes.py'})"


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
