"""`python -m benchmarks.gpu.wheels [FOLDER]`: download the packages that a GPU machine without a network lacks.

The machine has torch, numpy, pyarrow and safetensors. Training also needs pydantic, and the command line needs typer.
The versions are those that are installed here. The folder is ignored by git. The file `commit` in it has the value for
APE_COMMIT on that machine.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

NAMES = [
    *("pydantic", "pydantic_core", "annotated-types", "typing-inspection"),
    *("typer", "annotated-doc", "shellingham"),
]
LIMIT = 30 * 2**20  # bytes
PYTHON = "3.12"
PLATFORMS = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]


def main(folder: Path) -> None:
    """Download the wheels into a folder, and write `commit`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    for wheel in folder.glob("*.whl"):
        wheel.unlink()  # two versions of a package would make the installation fail
    words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON]
    words += ["--implementation", "cp", *(word for name in PLATFORMS for word in ("--platform", name))]
    wanted = [f"{name}=={version(name)}" for name in NAMES]
    subprocess.run([sys.executable, "-m", "pip", *words, "--dest", str(folder), *wanted], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    changed = subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True, text=True).stdout
    (folder / "commit").write_text(commit.strip() + ("+" if changed else "") + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > LIMIT:
        raise SystemExit(f"{folder} has {size / 2**20:.0f} MiB, but at most {LIMIT / 2**20:.0f} are allowed")
    print(f"{folder}: {len(wanted)} wheels, {size / 2**20:.1f} MiB, commit {(folder / 'commit').read_text().strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(".wheels"))
