"""The code of schemes and kinds of attention that are a user's own, as run.json records it.

The record is the SHA-256 of the file of each class. If a file has changed since the training, a warning says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress

from ape_cli import attention, position
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, RunError
from ape_cli.runs.config import Config
from ape_cli.runs.record import OwnCode

logger = logging.getLogger(__name__)


def own_parts(scheme: str, kind: str) -> dict[str, type]:
    """The classes of a scheme and of a kind of attention that are not part of ape, by a text that names them."""
    parts = {f"scheme {scheme!r}": position.load(scheme), f"attention {kind!r}": attention.load(kind)}
    return {part: cls for part, cls in parts.items() if plugins.is_own(cls)}


def own_files(scheme: str, kind: str) -> dict[str, str]:
    """The SHA-256 of the file of each of `own_parts`, as it was when it was loaded.

    A class without a file, as of a notebook, is left out.
    """
    digests = {part: plugins.digest(cls) for part, cls in own_parts(scheme, kind).items()}
    return {part: digest for part, digest in digests.items() if digest is not None}


def check_installed(config: Config) -> None:
    """Check that the scheme and the kind of attention of a model from elsewhere are found here.

    Raises `RunError`, with the file that is missing and what to do with it, if one is not.
    """
    for kind, name, package in (("scheme", config.scheme, position), ("attention", config.attention, attention)):
        if name not in package.names():
            file = f"{package.__name__.replace('.', '/')}/{name.replace('-', '_')}.py"
            raise RunError(
                f"{kind} {name!r} is not part of ape, and its file is missing here",
                got=f"no {file} in {', '.join(plugins.searched(package))}",
                allowed=f"{file} in a folder on PYTHONPATH, or an installed package that provides it",
                fix=f"get {file} from the author of the model, and add the folder with `ape_cli` to PYTHONPATH",
            )


def changed(runs: Iterable[OwnCode]) -> dict[str, list[str]]:
    """The names of the runs that were trained with another file than the present one, by the part whose file it is.

    Files that are missing or have an error are not compared.
    """
    outdated: dict[str, list[str]] = {}
    for run in runs:
        with suppress(ApeError):
            present = own_files(run.scheme, run.attention)
            for part in (part for part, digest in run.digests.items() if present.get(part) != digest):
                outdated.setdefault(part, []).append(run.run)
    return outdated


def change(part: str, runs: list[str]) -> str:
    """A sentence about a part whose file has changed since `runs` were trained."""
    since = f"run {runs[0]} was" if len(runs) == 1 else f"{len(runs):,} runs were"
    example = "" if len(runs) == 1 else f", for example {runs[0]}"
    again = "`ape train … --overwrite` trains again"
    return f"the code of {part} has changed since {since} trained{example}; {again}"


def warn_if_changed(run: str, config: Config, digests: dict[str, str]) -> None:
    """Log a warning for each own file that has changed since `run` was trained with the files of these `digests`."""
    for part, runs in changed([OwnCode(run, config.scheme, config.attention, digests)]).items():
        logger.warning(change(part, runs))
