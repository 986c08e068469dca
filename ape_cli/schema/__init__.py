"""The dataset on disk: the Arrow schema of a shard, and the manifest that vouches for it.

Version 1: a position is one number, as in every structure with one simple factor. Version 2: it has C > 1
coordinates, one for each simple factor, and is stored as a list of C; all else is as in version 1. Version 3: labelled
images (`pictures`), whose vocabulary is the names of their classes.

`DIR/data/{train,validation,test}-00000-of-00004.parquet`, `DIR/manifest.json`, `DIR/README.md` (a
dataset card). Ids are model ids: 0 PAD, 1 SOS, 2 EOS, symbols from 3 on. The manifest is written
last, so that its existence says that the shards are whole; it carries the SHA-256 of each.
"""

from __future__ import annotations

from ape_cli.schema import _pictures as pictures
from ape_cli.schema._manifest import (
    SPECIAL,
    SPLITS,
    Manifest,
    Moments,
    Piece,
    Plan,
    Shard,
    check_shard,
    check_shards,
    fingerprint,
    manifest_path,
    pieces_of,
    read_manifest,
    read_shards,
)
from ape_cli.schema._shards import (
    EOS,
    FIRST_SYMBOL,
    PAD,
    ROW_GROUP,
    SHARD,
    SOS,
    check_rows,
    content,
    positions,
    read_shard,
    shard,
    table,
    writer,
)

__all__ = [
    "EOS",
    "FIRST_SYMBOL",
    "PAD",
    "ROW_GROUP",
    "SHARD",
    "SOS",
    "SPECIAL",
    "SPLITS",
    "Manifest",
    "Moments",
    "Piece",
    "Plan",
    "Shard",
    "check_rows",
    "check_shard",
    "check_shards",
    "content",
    "fingerprint",
    "manifest_path",
    "pictures",
    "pieces_of",
    "positions",
    "read_manifest",
    "read_shard",
    "read_shards",
    "shard",
    "table",
    "writer",
]
