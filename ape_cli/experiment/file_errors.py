"""Errors about a field of a TOML file: they name the file and the line, and say what to write there.

Functions do not know where a value comes from. Their messages name the field and the value, by which its line is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ape_cli.core.errors import ApeError, DataError, UsageError
from ape_cli.runs import config
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath

_KEY = re.compile(
    r"""(?:^|[{,])[ \t]*(?:[\w-]+[ \t]*\.[ \t]*)*["']?([\w-]+)["']?[ \t]*=|^[ \t]*\[+([\w.-]+)\]+""", re.MULTILINE
)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_QUOTED = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_BARE = re.compile(r"[-+\d.e_]+|true|false|VALUE|.*….*")  # a value that is not quoted in TOML
_TABLES = {"set", "tune", "grid"}  # words that messages also use for other things
_TEXT = re.compile(r"""["']([\w-]+)["']""")
_NO_FIT = (0, 0, 0)
_WORDS = {"decode": "decoding", "data": "dataset"}  # other words for fields in messages


_EXAMPLES: dict[str, Any] = {
    "scheme": "rope",
    "task": "copy",
    "sizes": [10, 20],
    "data": "copy-small",
    "order": "depth",
    "seed": 42,
    "structure": "seq*tree(2)",
    "attention": "dot",
    "positions": "offset",
    "model": "decoder",
    "preset": "small",
    "precision": "fp32",
    "generalise": [30, 50],
    "decode": "greedy",
    "trials": 4,
    "decay": 0.98,
    "max_size": 100,
    "d_ff_decoder": 1024,
    "epochs": 3,
    "validate_every_epochs": 1,
    "augment": "crop",
}


def example(name: str, annotation: Any = None) -> str:
    """The line of a file that gives a field a valid value. The `annotation` of a field tells whether it is a list.

    >>> example("seed"), example("seeds", list[int])
    ('for example seed = 42', 'for example seeds = [42]')
    """
    value = _EXAMPLES.get(name, _EXAMPLES.get(name.removesuffix("s")))
    several = "list[" in str(annotation) and not isinstance(value, list)
    return f"for example {name} = {json.dumps([value] if several else value)}"


@dataclass(frozen=True)
class _Field:
    """A field of a file: its name, its first line, and the text up to the next field."""

    name: str
    line: int
    text: str


_FILE = _Field("", 0, "")  # the file as a whole


@contextmanager
def located(
    path: StoragePath | None, fields: Collection[str], replaced: Collection[str] = (), *, whole: bool = False
) -> Iterator[None]:
    """Errors in the block that are about a field of the TOML file name it and the line. Without a file, they pass.

    `fields`: those of such a file, beside the settings. `replaced`: fields and settings that the command line gives
    instead; errors about them pass. `whole`: errors that are about no field are about the file as a whole.
    """
    try:
        yield
    except (UsageError, DataError) as error:
        if path is None or str(path) in str(error):  # it names the file already
            raise
        fits = [(_fit(field, error), field) for field in _fields(path) if field.name not in replaced]
        fits += [(_fit(typed, error), typed) for typed in (_Field(name, 0, "") for name in replaced)]
        fit, field = max(fits, key=lambda found: found[0], default=(_NO_FIT, _FILE))
        if fit[0] == 0:
            field = _FILE
        if not (field.line or (whole and field is _FILE)):
            raise
        place = f"{path}, line {_line(field, _value(error))}" if field.line else path
        names = {*fields, *(name.removesuffix("s") for name in fields), field.name}
        names |= {name for kind in config.KINDS for name in config.settable(kind)}
        what, *parts = (_in_file(part, names, fields) for part in (error.what, error.got, error.allowed, error.fix))
        got, allowed, fix = parts
        raise type(error)(f"{place}: {what}", got=got, allowed=allowed, fix=fix) from error


def _value(error: ApeError) -> str:
    """The value that an error is about, without quotation marks; empty if it names none."""
    return "" if error.got is None else str(error.got).strip("'\"")


def _line(field: _Field, value: str) -> int:
    """The line of a value of a field; the first line if the value is not found."""
    found = _as_word(value).search(field.text)
    return field.line + (field.text.count("\n", 0, found.start()) if found else 0)


def _fit(field: _Field, error: ApeError) -> tuple[int, int, int]:
    """How well a field fits an error: the more, the better.

    Of fields that fit equally well, such as those of two grids, it is the one whose value is written as the error shows
    it, then the one that is mentioned first.
    """
    names = {field.name, field.name.removesuffix("s"), _WORDS.get(field.name, field.name)} - {"size"}
    if field.name in _TABLES:
        written = tuple(form.format(field.name) for form in ("`{}`", "[{}]", "bad {}"))
        names = names if any(form in error.what for form in written) else set()
    said, got = _WORD.findall(error.what), str(error.got)
    at = min((said.index(name) for name in names if name in said), default=len(said))
    named = 3 * (at < len(said)) + 4 * (not names.isdisjoint(_WORD.findall(got)))
    named += 2 * any(name in names for name, _ in _QUOTED.findall(error.fix or ""))
    value = _value(error)
    has_value = bool(value) and bool(_as_word(value).search(field.text))
    points = named + 8 * (value == field.name) + 4 * (has_value and (bool(named) or got != value))
    text = field.text.replace('"', "'").casefold().strip(" \n,}")
    return (
        points + any(word in said for word in _TEXT.findall(field.text)),
        (got.casefold() in text) + (got.casefold() == text),
        -at,
    )


def _fields(path: StoragePath) -> list[_Field]:
    """The fields of a file in their order; none if it cannot be read."""
    try:
        text = _COMMENT.sub("", files.read_bytes(path, files.TOML_BYTES).decode("utf-8-sig"))
    except (OSError, ValueError):
        return []
    matches = list(_KEY.finditer(text))
    ends = [match.start() for match in matches] + [len(text)]
    return [
        _Field(match[1] or match[2].split(".")[-1], text.count("\n", 0, match.end()) + 1, text[match.end() : end])
        for match, end in zip(matches, ends[1:], strict=True)
    ]


def _as_word(value: str) -> re.Pattern[str]:
    """A pattern of a value as a whole."""
    return re.compile(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])")


def _valid(name: str) -> Any:
    """A valid value of a field or setting."""
    if name in _EXAMPLES:
        return _EXAMPLES[name]
    kind = next(kind for kind in config.KINDS if name in config.settable(kind))
    return config.preset("small").of(kind).get(name, config.KINDS[kind].model_fields[name].default)


def _in_file(text: Any, names: Collection[str], fields: Collection[str]) -> Any:
    """A part of a message in which options are written as in a file."""
    if type(text) is not str:
        return text

    def written(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in names or not value:
            return name if name in names else match[0]
        if value == "VALUE":
            value = str(_valid(name))
        several = name not in fields and f"{name}s" in fields
        quoted = [word if _BARE.fullmatch(word) else f'"{word}"' for word in value.split(",")]
        is_list = several or len(quoted) > 1
        return f"`{name}{'s' * several} = {'[' * is_list}{', '.join(quoted)}{']' * is_list}`"

    shown = _QUOTED.sub(written, text.rpartition("; or in a file: ")[2])
    return f"write {shown}" if _QUOTED.fullmatch(text) and "=" in text else shown
