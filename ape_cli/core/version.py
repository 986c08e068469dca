"""The version of this package."""

from __future__ import annotations


def version() -> str:
    """The version of the installed package; `0+unknown` if it is used without being installed."""
    from importlib import metadata  # slow to import

    try:
        return metadata.version("ape-cli")
    except metadata.PackageNotFoundError:
        return "0+unknown"
