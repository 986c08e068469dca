"""The version of this package."""

from __future__ import annotations

from importlib import metadata

PACKAGE = "ape-cli"


def version() -> str:
    """The version of the installed package; `0+unknown` if it is used without being installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "0+unknown"
