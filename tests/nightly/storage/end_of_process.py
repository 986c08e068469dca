"""Code that could end its process is run in another one.

`check_footers` checks that no damaged footer of a Parquet file ends the process, as an abort in pyarrow would.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def separately(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in another process, whose working directory is `folder`."""
    root = str(Path(__file__).parents[3])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([root, *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def check_footers(imported: str, call: str, folder: Path) -> None:
    """Change each byte of the footer of `x.parquet`, one at a time, and read the file in one other process.

    `call` reads it, with what `imported` imports. Only `ApeError` is allowed.
    """
    code = (
        "from pathlib import Path\n"
        "from ape_cli.core.errors import ApeError\n"
        f"{imported}\n"
        "path = Path('x.parquet')\n"
        "content = path.read_bytes()\n"
        "for at in range(len(content) - 8 - int.from_bytes(content[-8:-4], 'little'), len(content)):\n"
        "    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])\n"
        f"    try: {call}\n"
        "    except ApeError: pass\n"
    )
    done = separately(code, folder)
    assert (done.returncode, done.stderr) == (0, "")
