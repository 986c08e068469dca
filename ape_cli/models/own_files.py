"""The code of schemes and kinds of attention that are a user's own, as run.json records it.

If the code has changed since the training, the run does not belong to the present code. Early versions of ape recorded
no digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from ape_cli import attention, position
from ape_cli.core import own_code, plugins
from ape_cli.core.errors import ApeError, RunError
from ape_cli.runs import record
from ape_cli.runs.config import Config
from ape_cli.runs.record import OwnCode
from ape_cli.runs.run import Run


def own_parts(scheme: str, kind: str) -> dict[str, type]:
    """The classes of a scheme and of a kind of attention that are not part of ape, by a text that names them."""
    every = {f"scheme {scheme!r}": position.load(scheme), f"attention {kind!r}": attention.load(kind)}
    return {what: found for what, found in every.items() if plugins.is_own(found)}


def own_files(config: Config) -> dict[str, str]:
    """The SHA-256 of the code of each of `own_parts` (`core/own_code.py`), as it was when it was loaded.

    A class without a file, as of a notebook, is left out.
    """
    return _digests(config.scheme, config.attention)


def _digests(scheme: str, kind: str) -> dict[str, str]:
    """`own_files` of a scheme and a kind of attention."""
    digests = {what: own_code.digest(found) for what, found in own_parts(scheme, kind).items()}
    return {what: digest for what, digest in digests.items() if digest is not None}


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


def check_same(config: Config, then: Mapping[str, str]) -> None:
    """Check that the code of an exported model's scheme and attention is that which it was trained with.

    `then` has the digests, as `own_files` returned them at its training. Raises `RunError` if some code is different.
    """
    now = own_files(config)
    for what, digest in then.items():
        if now.get(what) != digest:
            raise RunError(
                f"the code of {what} is not the one that the model was trained with",
                got=f"sha256 {now[what][:16]}…" if what in now else "another one, which has no file or is part of ape",
                allowed=f"sha256 {digest[:16]}…",
                fix="get the files from the author of the model, and put them in the place of these",
            )


def changes(runs: Iterable[OwnCode], command: str) -> list[str]:
    """A sentence about each scheme or attention whose code has changed since some of these runs were trained.

    `command` is the command that trains them again. Nothing is said about code that cannot be loaded now.
    """
    return [
        _change(what, then, now, command)
        for what, (then, now) in _compared(runs).items()
        if any(digest != now for digest in then.values())
    ]


def outdated(runs: Iterable[OwnCode]) -> set[str]:
    """The names of the runs that were trained with other code than the present one, as far as that can be loaded."""
    return {name for then, now in _compared(runs).values() for name, digest in then.items() if digest != now}


def _compared(runs: Iterable[OwnCode]) -> dict[str, tuple[dict[str, str], str | None]]:
    """For each scheme or attention that can be loaded: the digests of its runs by their names, and the present one."""
    then: dict[str, dict[str, str]] = {}
    now: dict[str, str] = {}
    by_parts: dict[tuple[str, str], list[OwnCode]] = {}
    for run in runs:
        by_parts.setdefault((run.scheme, run.attention), []).append(run)
    for parts, found in by_parts.items():
        with suppress(ApeError):  # its file is missing or has an error
            now |= _digests(*parts)
            for run in found:
                for what, digest in run.digests.items():
                    then.setdefault(what, {})[run.run] = digest
    return {what: (found, now.get(what)) for what, found in then.items()}


def _change(what: str, then: Mapping[str, str], now: str | None, command: str) -> str:
    """The sentence of `changes` about a part. `then` has the digests of its runs, and `now` is the present one."""
    old = [name for name, digest in then.items() if digest != now]
    runs = f"run {old[0]}" if len(then) == 1 else f"{len(old):,} of {len(then):,} runs"
    were = "was" if len(old) == 1 else "were"
    example = "" if len(then) == 1 else f", for example {old[0]}"
    present = f" (present version: {now[: own_code.DIGITS]})" if now and len(then) > 1 else ""
    again = "it" if len(old) == 1 else "them"
    since = f"{runs} {were} trained{example}{present}"
    return f"the code of {what} has changed since {since}; {command} trains {again} again"


def check_own_files(run: Run, config: Config) -> None:
    """Check that a run was trained with the present code of its scheme and attention, so that its weights fit it.

    Raises `RunError` if the code has changed since.
    """
    for what in changed(run, config):
        raise RunError(
            f"the code of {what} has changed since this run was trained",
            got=run.name,
            allowed="the code as it was, because the weights were trained with it",
            fix="undo the change, or train it again: `ape train … --overwrite`, `ape sweep … --retrain-changed`",
        )


def changed(run: Run, config: Config) -> list[str]:
    """The keys of `own_files` whose code has changed since a run was trained. Empty if there is no such run.

    Of a run without own files, nothing is known.
    """
    then, now = own_code_of(run), own_files(config)
    return [what for what, digest in then.digests.items() if now.get(what) != digest] if then else []


def own_code_of(run: Run) -> OwnCode | None:
    """The own code that a run was trained with. None if it has none or recorded none, or if there is no such run."""
    try:
        return record.own_code(run.known)
    except RunError:
        if run.exists():
            raise
        return None  # another process may have just removed it
