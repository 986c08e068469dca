"""Write the reference pages that follow from the code: commands, settings, tasks, schemes, attention, formats, Python.

`pages.py` writes them to `docs/reference/`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from ape_cli.cli import app
from ape_cli.cli.lists import listed
from ape_cli.evaluation.sharing import exported
from ape_cli.runs import config
from ape_cli.storage import image_rows, sequence_rows, tree_formats
from tools.markdown_text import code, page, prose, table
from tools.part_pages import kinds_of_attention, maps_of_positions, schemes_pages, tasks_pages
from tools.python_pages import python_pages
from tools.suite_page import suites_page
from tools.sweep_page import sweep_page

PAGES_OF = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = """
`ape COMMAND --help` prints the same information. Results go to stdout; progress and notes go to stderr. With `--json`,
the result is JSON for other programs. `ape gen` also takes the options of its task, which are listed under
[Tasks](tasks.md).

| exit status | meaning |
| --- | --- |
| 0 | success |
| 1 | failure |
| 2 | wrong usage |
| 130 | interrupted with Ctrl-C |
"""
DATASETS = """
A dataset is a folder:

| file | content |
| --- | --- |
| `data/SPLIT-NNNNN-of-NNNNN.parquet` | the rows of a split, in shards |
| `manifest.json` | the task and its parameters, the vocabulary, and the row count and SHA-256 of each shard |
| `baselines/SPLIT.json` | the scores of baselines that only count, once `ape train` or `ape eval` has counted them |
| `README.md` | a dataset card for readers and for the Hugging Face Hub |

The manifest is written last, so a folder with a manifest is complete. Its `vocabulary` lists the names of the symbols;
the index of a name is its id. Ids 0, 1 and 2 are padding, start and end of a sequence, and are not stored. Only in
targets that are tags, 0 stands at the places without a tag.

**Overlap.** A hash of the source decides which split a row may be in, so the splits share no source. If a task has too
few sources for three splits, or a source of images has some of them twice, a row may be in several splits. `overlap`
in the manifest is the number of `validation` and of `test` rows whose source is also in training, and `overlap_sizes`
lists the sizes at which these are more than 5% of the rows of one of the two splits. Rows are compared as they are
stored: by symbols and positions, or by pixels. `ape gen --json` prints both fields, and the dataset card contains
them. `ape gen` and `ape train` print a line if there is an overlap, and so does `ape eval` for the dataset that it
evaluates on. If an earlier version wrote the manifest, they count the rows.

**Order of batches.** An epoch of a dataset has one order, which follows from the seed and the number of the epoch. It
does not depend on `--shard-rows` or on row groups. Rows are shuffled within blocks of 32,768 consecutive rows of the
split, and images within as many of these blocks as have 4 GiB of pixels.
"""
READERS = """
Integers have the encoding `BYTE_STREAM_SPLIT`, with zstd. These versions were tried:

| program | reads the files | does not |
| --- | --- | --- |
| pyarrow, and pandas and `datasets` with it | from 16.0 | 15.0, 14.0 |
| Polars | from 1.0 | 0.20 |
| DuckDB | 2.0 | 1.5 and earlier |
| fastparquet | | 2026.9 |

All programs of the table, in all these versions, read a copy that Polars or pyarrow writes with its default settings:
`polars.read_parquet("data/train-*.parquet").write_parquet("train.parquet")`. `ape` only reads the original files.

`ape` keeps this encoding because files are smaller, and faster to write and to read. All current versions but that of
fastparquet read it. The table shows what other encodings need in relation to it, on 100,000 rows at the sizes of the
preprint, by one thread of an AMD EPYC (`python -m benchmarks encoding`):

| | size | time to write | time to read |
| --- | ---: | ---: | ---: |
| `PLAIN` | 1.8 to 3.2 | 1.9 to 2.6 | 1.6 to 1.7 |
| dictionary, the default of most writers | 1.1 to 1.2 | 1.4 to 1.6 | 1.1 to 1.3 |
| `DELTA_BINARY_PACKED` | 1.3 to 1.4 | 1.2 to 1.4 | 1.1 to 1.3 |
"""
COLUMNS = {
    "row": "row number in the split",
    "source_ids": "symbols of the source",
    "source_positions": "position of each symbol of the source: in trees from 1, else from 0 (batches add 1)",
    "target_ids": "symbols of the target",
    "target_positions": "position of each symbol of the target",
    "size": "length, depth or longer side of the source",
    "op": "operator of the source; null if the task has none",
    "image": "the image as PNG",
    "label": "index of the class in `vocabulary`",
}
EXPORTED = "`ape export RUN --out DIR` writes a folder, and [`ape_cli.load`](python/load.md) reads it:"
PACKED = """
`ape runs --pack FILE.parquet` writes a Parquet file with a row for each of these files of finished runs, by path:

| column | type | content |
| --- | --- | --- |
| `path` | `string` | `runs/RUN/run.json`, `runs/RUN/history.parquet` or `runs/RUN/eval/….json` |
| `content` | `binary` | the bytes of the file ([The files of a run](run-files.md)) |

The same runs always give the same bytes. `--results` accepts the file in place of a folder, and only reads it;
`ape runs --unpack` makes a folder of it.
"""
TREES = """
`ape gen trees --source PATH` reads trees from these files. [Use your own trees](../guides/trees.md) shows how. The last
column names the extra of this package that a format needs.
"""
SETTINGS = """
`--set KEY=VALUE` changes a field of the configuration. The tables list the value of each field in the presets; — means
that another field, the scheme or the data decides. `ape fields --scheme NAME` also lists the options of a scheme.
"""


def commands() -> str:
    """All commands with their arguments and options."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="ape")
    parts = [COMMANDS]
    for name in group.list_commands(context):
        command = group.commands[name]
        inner = typer.Context(command, parent=context, info_name=name)
        usage = " ".join(["ape", name, *command.collect_usage_pieces(inner)])
        parts += [f"## ape {name}", prose((command.help or "").split("\f")[0]), f"```text\n{usage}\n```"]
        parts += ["For example:", f"```sh\n{command.epilog}\n```"]
        rows = [_parameter(parameter) for parameter in command.get_params(inner) if not _is_elsewhere(parameter)]
        if rows:
            parts.append(table(["argument or option", "default", "meaning"], rows))
    return page("Commands", *parts)


def _is_elsewhere(parameter: Any) -> bool:
    """Whether a parameter is not on the page of commands: `--help`, and the options of tasks."""
    return not parameter.expose_value


def _parameter(parameter: Any) -> list[str]:
    """The row of a parameter of a command."""
    about = getattr(parameter, "help", None) or ""
    if parameter.param_type_name == "argument":
        return [f"`{parameter.metavar or parameter.name.upper()}`", "required" if parameter.required else "", about]
    value = "" if parameter.is_flag else f" {parameter.metavar}"
    names = ", ".join(f"`{name}{value}`" for name in parameter.opts)
    default = (
        "required"
        if parameter.required
        else ""
        if parameter.is_flag or parameter.default in (None, (), [])
        else code(parameter.default)
    )
    return [names, default, about]


def settings() -> str:
    """The fields that `--set` accepts, with their values in each preset."""
    parts = [SETTINGS]
    for modality, title in (("sequence", "Sequences"), ("image", "Images")):
        presets = [name for name, preset in config.PRESETS.items() if modality in preset.about]
        of = {name: {line["field"]: line for line in listed(name, modality)} for name in presets}
        rows = [
            [f"`{field}`", *(code(of[name][field]["value"]) for name in presets), line["allowed"], line["meaning"]]
            for field, line in of[presets[0]].items()
        ]
        parts += [f"## {title}", table(["field", *presets, "allowed", "meaning"], rows)]
    return page("Settings", *parts)


def formats() -> str:
    """The formats of a user's own trees, and the columns of datasets."""
    rows = []
    for name in tree_formats.names():
        tree_format = tree_formats.load(name)
        suffixes, extra = ", ".join(f"`{s}`" for s in tree_format.suffixes), (tree_format.needs or "").replace("_", "-")
        rows.append([f"`{name}`", suffixes, ", ".join(tree_format.units), extra])
    parts = ["## Datasets", DATASETS, "The columns of sequences, trees, grids and rings:"]
    parts += [_columns(sequence_rows.schema(1)), "With several coordinates, each position is a list of numbers."]
    parts += ["The columns of images:", _columns(image_rows.schema())]
    parts += ["### Programs that read datasets", READERS]
    parts += ["## Exported models", EXPORTED, prose((exported.__doc__ or "").split("\n\n", 1)[1])]
    parts += ["## Packed runs", PACKED]
    about = prose((tree_formats.__doc__ or "").split("\n\n", 1)[1])
    parts += ["## Formats of trees", TREES, table(["--format", "suffixes", "--unit", "extra"], rows)]
    parts += ["By default, a tree is one of the following, and its nodes are labelled by kind or by token:", about]
    return page("File formats", *parts)


def _columns(schema: Any) -> str:
    """The table of the columns of a Parquet file."""
    rows = [[f"`{field.name}`", f"`{field.type}`", COLUMNS[field.name]] for field in schema]
    return table(["column", "type", "content"], rows)


def pages() -> dict[str, str]:
    """The text of each page by its path under `docs/reference/`."""
    made = {"commands.md": commands(), "settings.md": settings(), "formats.md": formats()}
    of_parts = (tasks_pages, schemes_pages, kinds_of_attention, maps_of_positions)
    for more in (*of_parts, suites_page, sweep_page, python_pages):
        made |= more()
    return {name: re.sub(r"[ \t]+$", "", text, flags=re.M) for name, text in made.items()}
