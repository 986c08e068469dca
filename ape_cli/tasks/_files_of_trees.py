"""Base class of a task on trees of a user's files: which files, how they are read, and what identifies them.

Manifests keep the name and the digests of the files, and not their path, which differs between machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from ape_cli.core.errors import UsageError
from ape_cli.storage import sequence_rows
from ape_cli.storage.tree_sources import TreeSource, read_trees
from ape_cli.tasks import option, options_of
from ape_cli.tasks._fixed_rows import FixedRows
from ape_cli.tasks._tree_portion import TreePortion


@dataclass(frozen=True, kw_only=True)
class FilesOfTrees(FixedRows[TreePortion]):
    """A task on the trees of a user's files. They are read when they are needed."""

    where: str | None = option(None, "File, folder or pattern of your own trees.", name="source")
    format: str | None = option(
        None,
        "Format of the files: json, json-lines, python, s-expr, conllu, xml, html, algebra or tree-sitter-LANGUAGE. "
        "Default: by their suffix.",
    )
    unit: str | None = option(None, "What a tree is: file, function, sentence, document or subtree.")
    column: str | None = option(None, "Column of texts of Parquet files.")
    skip_bad: bool = option(False, "Leave out files that cannot be read.")

    @cached_property
    def _source(self) -> TreeSource:
        """The trees of the files."""
        if self.where is None:
            raise UsageError(
                "the task trees needs files",
                got="no --source",
                allowed="a file, a folder or a pattern of your own trees",
                fix="ape gen trees --source PATH, then ape train --data datasets/…",
            )
        return read_trees(self.where, format=self.format, unit=self.unit, column=self.column, skip_bad=self.skip_bad)

    def manifest_fields(self, rows: int, seed: int) -> dict[str, Any]:
        """The SHA-256 of each file of the source, by its path below the source."""
        return {"sources": dict(self._source.files)}

    @property
    def _sha256(self) -> str:
        """A digest of the content of the files that were read."""
        listed = "\n".join(f"{path} {digest}" for path, digest in self._source.files)
        return hashlib.sha256(listed.encode()).hexdigest()

    @classmethod
    def recorded(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options among the parameters that a manifest has."""
        return {k: v for k, v in parameters.items() if k in options_of(cls) and k not in ("source", "format", "unit")}

    @property
    def command_options(self) -> dict[str, Any]:
        """The options of the command that generates the dataset again. The path of the source is left out."""
        default = {name: own.default for name, own in options_of(type(self)).items()}
        return {"source": "PATH"} | {k: v for k, v in self.options.items() if k != "source" and v != default[k]}

    @property
    def columns(self) -> pa.Schema:
        """The schema of the shards."""
        return sequence_rows.schema(1)

    def content(self, part: pa.Table) -> tuple[int, int]:
        """Two 64-bit sums over the rows of a table, for the dataset's fingerprint."""
        return sequence_rows.content(part)
