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
            path, changed = package.put(mistake.where, mistake.right, mistake.wrong)
        except LookupError as error:
            lost.append(f"{mistake.what}: {error}")
            continue
        assert path.read_text(encoding="utf-8") != changed
        file, _, name = mistake.test.partition("::")
        if f"def {name}(" not in (tests / file).read_text(encoding="utf-8"):
            lost.append(f"{mistake.what}: {file} has no test {name}")
    assert not lost, "\n".join(lost)


CODE = '''\
LOW, HIGH = 1, 2


class Rope:
    exact = True

    def rotate(self, x: int) -> int:
        """Rotations x."""
        # a comment
        if x < 0:
            raise ValueError("né", x)
        elif x > HIGH:
            y = x + 2  # ×
            return scaled(y, by="two")
        return 3 * x
'''


def package(folder: Path, **files: str) -> Package:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return Package(folder)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("# a comment", "# other words", id="a comment is reworded"),
        pytest.param("  # ×", "", id="a comment is removed"),
        pytest.param("# a comment", "y = 0\n\n", id="code is added above"),
        pytest.param(
            '"""Rotations x."""', '"""Rotations x\n\n        by its position."""', id="the docstring is reworded"
        ),
        pytest.param('"""Rotations x."""', "", id="the docstring is removed"),
        pytest.param(
            '(y, by="two")', "(\n                y,  # y\n                by='two',\n            )", id="layout"
        ),
        pytest.param("class Rope", "def rotate(): ...\n\n\nclass Rope", id="another function has the name"),
    ],
)
def test_what_is_no_code_may_change(tmp_path: Path, before: str, after: str) -> None:
    assert CODE.count(before) == 1
    code = package(tmp_path, rope=CODE.replace(before, after))
    right = """
        y = x + 2
        return scaled(y, by="two")
    """
    assert "elif x > HIGH:\n            return x\n        return 3 * x" in code.put("Rope.rotate", right, "return x")[1]


def test_a_file_may_move(tmp_path: Path) -> None:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    code = package(tmp_path / "deep" / "down", other=CODE)
    assert code.put("Rope.rotate", "3 * x", "x")[0] == tmp_path / "deep" / "down" / "other.py"


@pytest.mark.parametrize(
    ("where", "right", "wrong", "before", "after"),
    [
        ("Rope.rotate", "3 * x", "x", "3 * x", "x"),
        ("Rope", "3 * x", "x", "3 * x", "x"),
        ("Rope.rotate", "x > HIGH", "x > 1 if x else x", "x > HIGH", "x > 1 if x else x"),
        ("Rope.rotate", "3", "3 + x", "3 * x", "(3 + x\n) * x"),
        ("Rope.rotate", "ValueError('né', x)", "OSError(x)", 'ValueError("né", x)', "OSError(x)"),
        ("Rope.rotate", "by='two'", "by=2", 'by="two"', "by=2"),
        ("Rope.rotate", "y = x + 2", "y = 2", "y = x + 2", "y = 2"),
        ("Rope.rotate", "y = x + 2", "", "y = x + 2  #", "  #"),
        ("Rope.rotate", "raise ValueError('né', x)", "", 'raise ValueError("né", x)', "pass"),
        ("Rope.rotate", "return 3 * x", "if x:\n    f()", "return 3 * x", "if x:\n            f()"),
        ("Rope.exact", "True", "False", "True", "False"),
        ("Rope.exact", "exact = True", "exact = None", "exact = True", "exact = None"),
        ("HIGH", "LOW, HIGH = 1, 2", "LOW = 1", "LOW, HIGH = 1, 2", "LOW = 1"),
        ("LOW", "1, 2", "2, 1", "1, 2", "2, 1"),
    ],
)
def test_code_is_replaced_and_nothing_else(
    tmp_path: Path, where: str, right: str, wrong: str, before: str, after: str
) -> None:
    assert CODE.count(before) == 1
    assert package(tmp_path, rope=CODE).put(where, right, wrong)[1] == CODE.replace(before, after)


NESTED = """\
def f(x):
    if x:
        a
    elif y:
        b

    @cached
    def g(): ...

    return sum(i for i in x)
"""


@pytest.mark.parametrize(
    ("where", "right", "wrong", "before", "after"),
    [
        ("f", "if y:\n    b", "if z:\n    b", "    elif y:\n        b", "    else:\n        if z:\n            b"),
        ("f", "if y:\n    b", "", "    elif y:\n        b", "    else:\n        pass"),
        ("f", "@cached\ndef g(): ...", "g = 0", "@cached\n    def g(): ...", "g = 0"),
        ("f.g", "...", "0", "...", "0"),
        ("f", "i for i in x", "x", "(i for i in x)", "(x\n)"),
    ],
)
def test_elif_decorators_and_generators(
    tmp_path: Path, where: str, right: str, wrong: str, before: str, after: str
) -> None:
    assert NESTED.count(before) == 1
    assert package(tmp_path, f=NESTED).put(where, right, wrong)[1] == NESTED.replace(before, after)


def test_code_that_changed_is_not_found(tmp_path: Path) -> None:
    code = package(tmp_path, rope=CODE, other="def spun(x):\n    return 4 * x\n")
    with pytest.raises(LookupError, match=r"^Rope.rotate at rope.py:7 does not contain this code:\n    5 \* x$"):
        code.put("Rope.rotate", "5 * x", "x")
    with pytest.raises(LookupError, match=r"^Rope.rotate at .* it stands in spun at other.py:2:\n    4 \* x$"):
        code.put("Rope.rotate", "4 * x", "x")
    with pytest.raises(
        LookupError, match=r"^nothing in .* is called Rope.rotated, but Rope.rotate.*; it stands in Rope.rotate at rope"
    ):
        code.put("Rope.rotated", "3 * x", "x")
    with pytest.raises(LookupError, match="does not contain"):
        code.put("Rope.rotate", '"""Rotations x."""', "x")


def test_code_that_stands_twice_names_both_places(tmp_path: Path) -> None:
    code = package(tmp_path, rope=CODE, other="class Rope:\n    def rotate(self, x):\n        return 3 * x\n")
    with pytest.raises(LookupError, match=r"stands 2 times in Rope.rotate, at other.py:3, rope.py:15:"):
        code.put("Rope.rotate", "3 * x", "x")
    assert code.put("Rope.rotate", "y = x + 2", "y = 2")[0].name == "rope.py"


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("3*x", "(3 * x)", "changes nothing"),
        ("", "x", "has no code"),
        ("3 * ", "x", "not valid Python"),
        ("3 * x", "pass", "does not contain"),  # `pass` is not an expression, so `3 * x` is parsed as a statement
        ("raise ValueError('né', x)", 's = """\n\n"""', "cannot be replaced"),  # indentation would change the string
    ],
)
def test_what_cannot_be_a_mistake_is_refused(tmp_path: Path, right: str, wrong: str, problem: str) -> None:
    with pytest.raises(LookupError, match=problem):
        package(tmp_path, rope=CODE).put("Rope.rotate", right, wrong)
