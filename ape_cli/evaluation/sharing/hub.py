"""Uploads to the Hugging Face Hub: an exported model, or a dataset, as one commit.

The package `huggingface_hub` is an extra: `pip install 'ape-cli[hub]'`. It finds the token in the usual places: the
environment variable HF_TOKEN, or what `hf auth login` stored. HF_ENDPOINT names another server than huggingface.co.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ape_cli.core.errors import ApeError, PlaceError, UsageError
from ape_cli.core.extras import how_to_get
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import manifest_path
from ape_cli.evaluation.sharing.exported import FILES, read_export

_LOGIN = "`hf auth login` stores one; or set HF_TOKEN (huggingface.co/settings/tokens, with the role `write`)"


def check_target(repository: str) -> None:
    """Check that something can be uploaded to a repository, without any request.

    Raises `UsageError` if `huggingface_hub` is not installed, if the name is not USER/NAME, or if there is no token.
    """
    if how := how_to_get("huggingface_hub", "hub"):
        raise UsageError("huggingface_hub is not installed", got="ape push", fix=how)
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
        if repository.count("/") != 1:
            raise HFValidationError
    except HFValidationError:
        allowed = "USER/NAME or ORGANISATION/NAME, of ASCII letters, digits, `-`, `_` and `.`"
        raise UsageError("no repository can have this name", got=repository, allowed=allowed, fix="correct --to") from (
            None
        )
    if huggingface_hub.get_token() is None:
        raise UsageError("there is no token for the Hugging Face Hub", got=f"--to {repository}", fix=_LOGIN)


def push_model(folder: Path, repository: str, *, private: bool) -> str:
    """Upload an exported model to a model repository, which is created if necessary. Returns the address of the commit.

    Raises `RunError` if a file of the export is damaged, `UsageError` as `check_target` does and if a repository that
    should be private is public, and `PlaceError` if the Hub refuses or cannot be reached.
    """
    run = read_export(folder)[1].run
    return _push(folder, list(FILES), repository, "model", private, f"Add {run}")


def push_dataset(folder: Path, repository: str, *, private: bool) -> str:
    """Upload a dataset to a dataset repository, like `push_model`. Shards of an earlier dataset there are removed.

    Raises `DataError` if a file of the dataset is missing or damaged, and otherwise the same errors as `push_model`.
    """
    data = open_dataset(folder)
    shards = [shard.file for parts in data.manifest.shards.values() for shard in parts]
    card = ["README.md"] if (folder / "README.md").is_file() else []
    names = [*shards, *card, manifest_path(folder).name]
    return _push(folder, names, repository, "dataset", private, f"Add {data.name}")


def _push(folder: Path, names: list[str], repository: str, kind: str, private: bool, message: str) -> str:
    """Upload the files `names` of a folder as one commit. Returns the address of the commit.

    Raises `UsageError` if one is a link or is in a linked folder.
    """
    check_target(repository)
    if linked := [name for name in names if (folder / name).resolve() != folder.resolve() / name]:
        fix = "put the file itself in its place"
        raise UsageError("links are not uploaded, because they may lead anywhere", got=folder / linked[0], fix=fix)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    if not sys.stderr.isatty():
        disable_progress_bars()
    api = HfApi(library_name="ape-cli")
    with _explained(api.endpoint, repository):
        api.create_repo(repository, repo_type=kind, private=private or None, exist_ok=True)
        if private and not api.repo_info(repository, repo_type=kind).private:
            raise UsageError(
                "the repository exists and is public",
                got=f"--private --to {repository}",
                fix="make it private on the Hub, leave --private out, or choose another name",
            )
        there = api.list_repo_files(repository, repo_type=kind) if kind == "dataset" else []
        stale = sorted({name for name in there if name.startswith("data/") and name.endswith(".parquet")} - {*names})
        changes: list[Any] = [CommitOperationAdd(name, folder / name) for name in names]
        changes += [CommitOperationDelete(name) for name in stale]
        done = api.create_commit(repository, changes, commit_message=message, repo_type=kind)
    return str(done.commit_url)


@contextmanager
def _explained(endpoint: str, repository: str) -> Iterator[None]:
    """Turn the errors of `huggingface_hub` within the block into one message each. Raises `PlaceError`."""
    try:
        yield
    except ApeError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise _explanation(error, endpoint, repository) from error
    except Exception as error:
        if not _is_of_http(error):
            raise
        raise _explanation(error, endpoint, repository) from error


def _is_of_http(error: BaseException) -> bool:
    """Whether an error is one of the HTTP library. Which library that is depends on the version of huggingface_hub."""
    from huggingface_hub import errors

    return isinstance(error, errors.HTTPError)  # type: ignore[attr-defined]


def _explanation(error: BaseException, endpoint: str, repository: str) -> PlaceError:
    """The error for users. `huggingface_hub` wraps an error of the upload of a file into a `RuntimeError`."""
    from huggingface_hub import errors

    if isinstance(error, RuntimeError) and error.__cause__ is not None:
        return _explanation(error.__cause__, endpoint, repository)
    if isinstance(error, errors.HfHubHTTPError):
        return _refused(error, repository)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return PlaceError("the Hub is switched off", got="HF_HUB_OFFLINE is set", fix="unset it")
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, OSError) or _is_of_http(error):
        fix = "check the network, and HF_ENDPOINT if it is set"
        return PlaceError("the Hub cannot be reached", got=f"{endpoint}: {said}", fix=fix)
    return PlaceError("the upload failed", got=said, fix="correct what the message names")


def _refused(error: Any, repository: str) -> PlaceError:
    """The error for an answer of the Hub that is no success."""
    status = error.response.status_code
    said = f"{repository}: {error.server_message or error.response.reason_phrase} (HTTP {status})"
    if status == 401:
        return PlaceError("the Hub does not accept the token", got=said, fix=_LOGIN)
    if status in (403, 404):
        fix = "use a token with the role `write` for it, or choose another --to"
        return PlaceError("there is no permission to write to this repository", got=said, fix=fix)
    again = "run the same command again later" if status >= 500 or status == 429 else "see the message of the Hub"
    return PlaceError("the Hub refused the upload", got=said, fix=again)
