"""The commit of a package, for hatchling: the file `ape_cli/COMMIT`, which `ape` reads where it has no git history.

It is the hash of the checkout that builds the package, with a "+" if a file of the package is new or
changed. An editable installation has a git history. A package that is built without one has no such file.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelCommit(BuildHookInterface[Any]):
    """Adds the file to a wheel or an archive of the source."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file. `version`: `editable` or `standard`."""
        self._folder = TemporaryDirectory()
        with suppress(OSError, subprocess.SubprocessError):
            if version != "editable" and Path(self._git("rev-parse", "--show-toplevel")) == Path(self.root).resolve():
                changes = self._git("status", "--porcelain", "--", "ape_cli")
                file = Path(self._folder.name, "COMMIT")
                file.write_text(self._git("rev-parse", "HEAD") + ("+" if changes else ""), encoding="utf-8")
                build_data["force_include"][str(file)] = "ape_cli/COMMIT"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        self._folder.cleanup()

    def _git(self, *words: str) -> str:
        """What a command of git prints."""
        command = ["git", "--no-optional-locks", "-C", self.root, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
