"""Every known mistake still has its place in the code. `make mistakes` puts each of them into a copy of the code."""

from __future__ import annotations

from pathlib import Path

from tests.mistakes.__main__ import MISTAKES, ROOT
from tests.mistakes._place import Package


def test_each_has_its_place_in_the_code_and_a_test() -> None:
    package, tests = Package(ROOT / "ape_cli"), Path(__file__).parent
    lost, unchanged = list[str](), dict[Path, str]()  # the text of each file, without comments
    for mistake in MISTAKES:
        try:
            path, changed = package.put(mistake.where, mistake.right, mistake.wrong)
            compile(changed, mistake.where, "exec")
            if path not in unchanged:
                unchanged[path] = package.put(mistake.where, mistake.right, mistake.right)[1]
            assert changed != unchanged[path]
        except LookupError as error:
            lost.append(f"{mistake.what}: {error}")
        file, _, name = mistake.test.partition("::")
        if f"def {name}(" not in (tests / file).read_text(encoding="utf-8"):
            lost.append(f"{mistake.what}: {file} has no test {name}")
    assert not lost, "\n".join(lost)
