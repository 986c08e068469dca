"""Puts each known mistake into a copy of the code and checks that the test that guards against it fails.

This is not a test itself, because it takes minutes. `make mistakes` runs all mistakes, and
`python -m tests.mistakes 17 FlexAttention` runs only those with that number or that word in their description. The exit
status is 1 if no test notices a mistake, or if its place in the code is not found. Earlier implementations of these
schemes and tasks made these mistakes. Each of them trains without an error and shows only as a wrong number.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import mistakes
from tests.mistakes._mistake import Mistake
from tests.mistakes._place import Package

ROOT = Path(__file__).parents[2]
FILES = sorted(found.name for found in pkgutil.iter_modules(mistakes.__path__) if not found.name.startswith("_"))
MISTAKES: list[Mistake] = [
    mistake for name in FILES for mistake in importlib.import_module(f"tests.mistakes.{name}").MISTAKES
]


def copy_project(copy: Path) -> None:
    """Copies the files that git tracks, and new ones that it does not ignore."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)


def run_tests(copy: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs tests of a copy of the project until one fails."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", *(f"tests/{test}" for test in tests)]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def noticed(mistake: Mistake, package: Package, copy: Path) -> str:
    """Returns `noticed`, or a text that says what is wrong."""
    try:
        path, changed = package.put(mistake.where, mistake.right, mistake.wrong)
    except LookupError as error:
        return str(error)
    text = path.read_text(encoding="utf-8")
    path.write_text(changed, encoding="utf-8")
    done = run_tests(copy, [mistake.test])
    path.write_text(text, encoding="utf-8")
    if done.returncode == 1:
        return "noticed"
    return "NOT NOTICED" if done.returncode == 0 else f"the test did not run:\n{done.stdout[-800:]}{done.stderr[-400:]}"


def main() -> None:
    wanted = sys.argv[1:]
    chosen = [
        (n, m) for n, m in enumerate(MISTAKES, 1) if not wanted or any(w == str(n) or w in m.what for w in wanted)
    ]
    if not chosen:
        sys.exit(f"no known mistake has the number or contains the words: {' '.join(wanted)}")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        copy_project(copy)
        done = run_tests(copy, sorted({mistake.test for _, mistake in chosen}))
        if done.returncode:  # a test that fails without the mistake cannot notice it
            sys.exit(f"a test fails before any mistake is put in:\n{done.stdout[-2000:]}{done.stderr[-400:]}")
        package = Package(copy / "ape_cli")
        for number, mistake in chosen:
            found = noticed(mistake, package, copy)
            missed += found != "noticed"
            print(f"{number:2} {mistake.what}: {found}", flush=True)
    print(f"{missed} not noticed" if missed else "every mistake is noticed")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
