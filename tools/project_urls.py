"""The project's addresses in the metadata of a package, for hatchling.

They follow from the repository that builds the package: GitHub Actions sets GITHUB_SERVER_URL and GITHUB_REPOSITORY,
and a fork gets its own addresses. A package that is built anywhere else has no addresses.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Sets `urls`, which `pyproject.toml` declares as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the addresses."""
        server, repository = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY"))
        if server and repository:
            metadata["urls"] = urls(f"{server}/{repository}")


def urls(repository: str) -> dict[str, str]:
    """The addresses of a repository, by the names that package indexes know.

    >>> urls("https://github.com/o/r")["Changelog"]
    'https://github.com/o/r/blob/HEAD/CHANGELOG.md'
    """
    return {
        "Source": repository,
        "Documentation": f"{repository}/tree/HEAD/docs",
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
    }
