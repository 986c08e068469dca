"""Every known mistake still has its place in the code. `make mistakes` puts each of them into a copy of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mistakes.__main__ import MISTAKES, ROOT
from tests.mistakes._place import Package


def test_each_has_its_place_in_the_code_and_a_test() -> None:
    package, tests = Package(ROOT / "ape_cli"), Path(__file__).parent
    lost = []
    for mistake in MISTAKES:
        try:
            _, changed = package.put(mistake.where, mistake.right, mistake.wrong)
            compile(changed, mistake.where, "exec")
            assert changed != package.put(mistake.where, mistake.right, mistake.right)[1]
        except LookupError as error:
            lost.append(f"{mistake.what}: {error}")
        file, _, name = mistake.test.partition("::")
        if f"def {name}(" not in (tests / file).read_text(encoding="utf-8"):
            lost.append(f"{mistake.what}: {file} has no test {name}")
    assert not lost, "\n".join(lost)


CODE = """\
LOW, HIGH = (1, 2)

class Rope:
    exact = True

    def rotate(self, x: int) -> int:
        if x < 0:
            raise ValueError('né', x)
        elif x > HIGH:
            y = x + 2
            return scaled(y, by='two')

        def inner():
            ...
        return sum((3 * i for i in x))"""


def test_code_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "rope.py").write_text(CODE.replace("y = x + 2", "y = (x +\n  2)  # a comment"), encoding="utf-8")
    package = Package(tmp_path)
    for where, right, wrong, before, after in [
        ("Rope", "3 * i", "i", "3 * i", "i"),
        ("Rope.rotate", "3", "3 + x", "3 * i", "(3 + x) * i"),
        ("Rope.rotate", "3 * i for i in x", "x", "sum((3 * i for i in x))", "sum(x)"),
        ("Rope.rotate", "by='two'", "by=2", "by='two'", "by=2"),
        ("Rope.rotate", 'raise ValueError("né", x)', "", "raise ValueError('né', x)", "pass"),
        (
            "Rope.rotate",
            "y = x + 2\nreturn scaled(y, by='two')",
            "z",
            f"y = x + 2\n{' ' * 12}return scaled(y, by='two')",
            "z",
        ),
        ("Rope.rotate.inner", "...", "0", "...", "0"),
        ("Rope.exact", "True", "False", "True", "False"),
        ("HIGH", "LOW, HIGH = 1, 2", "LOW = 1", "LOW, HIGH = (1, 2)", "LOW = 1"),
    ]:
        assert package.put(where, right, wrong) == (tmp_path / "rope.py", CODE.replace(before, after))
    for where, right in [("Rope.rotate", "5 * x"), ("Rope.rotated", "3 * i"), ("Rope.rotate", "x")]:
        with pytest.raises(LookupError, match="not once"):
            package.put(where, right, "y")
