"""Uploads to the Hugging Face Hub: an exported model, or a dataset, as one commit.

The package `huggingface_hub` is the extra `hub`. It finds the token in HF_TOKEN, or where `hf auth login` stored it.
HF_ENDPOINT names another server than huggingface.co.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ape_cli.core.errors import ApeError, PlaceError, RunError, UsageError
from ape_cli.core.extras import how_to_get
from ape_cli.data.loader import open_dataset
from ape_cli.data.manifest import manifest_path
from ape_cli.evaluation.sharing.exported import CONFIG, FILES, read_export

_LOGIN = "`hf auth login` stores one; or set HF_TOKEN (huggingface.co/settings/tokens, with the role `write`)"


def check_target(repository: str) -> None:
    """Check that something can be uploaded to a repository, without any request.

    Raises `UsageError` if `huggingface_hub` is not installed, if the name is not USER/NAME, or if there is no token.
    """
    if how := how_to_get("huggingface_hub", "hub"):
        raise UsageError("huggingface_hub is not installed", got="ape push", fix=how)
    import huggingface_hub

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII):
        what, allowed = "invalid repository name", "USER/NAME, of ASCII letters, digits, `-`, `_` and `.`"
        raise UsageError(what, got=repository, allowed=allowed, fix="correct `to`")
    if huggingface_hub.get_token() is None:
        raise UsageError("no token for the Hugging Face Hub", got=f"`to={repository}`", fix=_LOGIN)


def push_model(folder: Path, repository: str, *, private: bool) -> str:
    """Upload an exported model to a model repository, which is created if necessary. Returns the address of the commit.

    Raises `RunError` if a file of the export is damaged, `UsageError` if a repository that should be
    private is public, and `PlaceError` if the upload fails.
    """
    exported = read_export(folder)[1]
    if CONFIG not in exported.files:
        what = f"{folder / CONFIG} is from an earlier version, so changed scores would go unnoticed"
        raise RunError(what, fix="export the run again")
    return _push(folder, list(FILES), repository, "model", private, f"Add {exported.run}")


def push_dataset(folder: Path, repository: str, *, private: bool) -> str:
    """Upload a dataset to a dataset repository, like `push_model`. Shards of an earlier dataset there are removed.

    Raises `DataError` if a file of the dataset is missing or damaged, and otherwise the same errors as `push_model`.
    """
    data = open_dataset(folder)
    shards = [shard.file for parts in data.manifest.shards.values() for shard in parts]
    names = [*shards, *["README.md"] * (folder / "README.md").is_file(), manifest_path(folder).name]
    return _push(folder, names, repository, "dataset", private, f"Add {data.name}")


def _push(folder: Path, names: list[str], repository: str, repository_type: str, private: bool, message: str) -> str:
    """Upload the files `names` of a folder as one commit. Returns the address of the commit."""
    from huggingface_hub import HfApi, errors
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    if not sys.stderr.isatty():
        disable_progress_bars()
    api = HfApi(library_name="ape-cli")
    try:
        api.create_repo(repository, repo_type=repository_type, private=private or None, exist_ok=True)
        if private and not api.repo_info(repository, repo_type=repository_type).private:
            fix = "make it private on the Hub, or choose another name"
            raise UsageError("the repository exists and is public", got=repository, fix=fix)
        commit = api.upload_folder(
            repo_id=repository,
            repo_type=repository_type,
            folder_path=folder,
            allow_patterns=names,
            delete_patterns="data/*.parquet" if repository_type == "dataset" else None,
            commit_message=message,
        )
    except ApeError:
        raise
    except (OSError, ValueError, RuntimeError, errors.HTTPError) as error:  # type: ignore[attr-defined]
        fix = f"check the network, and HF_ENDPOINT if it is set; if the Hub needs another token, {_LOGIN}"
        raise PlaceError("the upload to the Hub failed", got=f"{api.endpoint}: {error}", fix=fix) from error
    return str(commit.commit_url)
