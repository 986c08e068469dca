"""Hostile text for each output medium: it is shown, and it does nothing else."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt  # a dependency of rich

from ape_cli.core import escaping
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.reports import document, rendering
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, choose
from ape_cli.runs.registry import Registry
from ape_cli.storage.paths import storage_path
from tests.conftest import ape
from tests.registered import edit, rename
from tests.reports.test_aggregation import add

HOSTILE = 'x\x1b[2J\x9b31m|<script>alert(1)</script>`[a](b)\u202e\r\n"&%$\\end{tabular}'
HOSTILE_TASK = HOSTILE.replace("/", "")  # the name of the run begins with it, and is that of a folder
FORBIDDEN = ("\x1b", "\x9b", "\u202e", "\r")


@pytest.mark.parametrize(
    "write", [escaping.terminal, escaping.one_line, escaping.markdown, escaping.latex, escaping.html]
)
def test_no_control_character_reaches_any_medium(write) -> None:  # type: ignore[no-untyped-def]
    every = "".join(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2066, 0x200F, 0x2028, 0xFEFF, 0xDC80]))
    shown = write(every)
    assert all(character.isprintable() or character in "\t\n" for character in shown)
    assert write(escaping.one_line(HOSTILE))  # a second time does not fail
    for plain in ("rope", "tree-copy/depth", "größe ± 3 — ×2", "a=0.5"):
        assert escaping.terminal(plain) == plain


def test_json_is_the_same_value_for_a_program() -> None:
    value = {HOSTILE: [HOSTILE, 0.1, None]}
    text = escaping.json(value)
    assert json.loads(text) == value
    assert not any(character in text for character in FORBIDDEN)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run whose dataset, task and setting have hostile names."""
    add(tmp_path, "rope", 0.5, variant={"=" + HOSTILE: HOSTILE})
    (run,) = (tmp_path / "runs").iterdir()
    edit(run / "run.json", lambda about: about["dataset"].update(task=HOSTILE_TASK, name="=" + HOSTILE))
    run = rename(run)
    edit(next((run / "eval").iterdir()), dataset="=" + HOSTILE)
    return tmp_path


@pytest.mark.parametrize("style", ["rich", "markdown", "latex", "csv", "json", "html"])
def test_hostile_names_in_a_report(hostile: Path, style: str) -> None:
    """HTML takes 2 seconds, because the page has the plots of all views."""
    made = document.read(Registry(hostile), choose(None, None, None), Options(style=style))
    out = made.text("score")
    assert not any(character in out for character in FORBIDDEN)
    if style == "markdown":
        heads = [line for line in out.splitlines() if line.startswith("|")]
        assert len({line.count("|") - line.count("\\|") for line in heads}) == 1  # no cell ends early
        assert "<script>" not in out
    if style == "latex":
        assert out.count("\\end{table}") == 1
    if style == "html":
        assert out.count("<script") == 1  # that of the page
    if style == "csv":
        cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
        assert not [
            cell for cell in cells if cell[:1] in ("=", "@", "+") or (cell[:1] == "-" and not cell[1:2].isdigit())
        ]
    if style == "json":
        assert json.loads(out)[0]["task"] == HOSTILE_TASK


def test_notes_in_markdown_are_text() -> None:
    """Code between backticks stays, and no picture or tag begins, whatever a name in the note contains."""
    for name in ("<img src=x>", "![y](http://z)", "`<img src=x>", "a`b`<img src=x>", "``", "\x1b[2J"):
        text = rendering.markdown([Table("t", [f"`ape verify` names {name}."], ["a"], [], "%")])
        shown = MarkdownIt("commonmark").render(text)
        assert "<img" not in shown, name
        assert "<code>ape verify</code>" in shown, name
        assert "\x1b" not in shown, name


def test_hostile_names_on_a_terminal(hostile: Path) -> None:
    for words in (("runs",), ("runs", "--json"), ("report",), ("report", "--by", "size"), ("eval",)):
        out, err = ape(*words, "--results", str(hostile))
        assert not any(character in out + err for character in FORBIDDEN), words


# Addresses

SECRETS = [
    "s3://KEY:GEH/EIM@bucket/path",
    "s3://KEY:GEHEIM/bucket",
    "s3://bucket/x?endpoint_override=http://me:GEHEIM@host",
    "s3://bucket/x?endpoint_override=http%3A%2F%2Fme%3AGEHEIM%40host",
    "s3://bucket/x?secret_key=GEHEIM",
    "s3:/KEY:GEHEIM@bucket",
]


@pytest.mark.parametrize("address", SECRETS)
def test_an_address_with_a_secret_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        storage_path(address)
    assert "GEH" not in str(caught.value)
    assert "EIM" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://KEY:GEHEIM/b", "s3://…"),
        ("s3://KEY:12/b", "s3://KEY:12/b"),  # this may be a port
        ("http://localhost:9000, http://[::1]:9000/x: refused", "http://localhost:9000, http://[::1]:9000/x: refused"),
        ("http://a.b/c,http://me:GEH@host", "http://…@host"),
        ("s3://b?endpoint_override=http://me:GEH/", "s3://b?endpoint_override=http://…"),
        ("x?password=GEHEIM&y=1", "x?password=…&y=1"),
        ("cannot read s3://bucket: denied", "cannot read s3://bucket: denied"),
    ],
)
def test_what_is_redacted_and_what_is_not(text: str, shown: str) -> None:
    assert escaping.redacted(text) == shown


def test_a_secret_is_hidden_before_a_message_is_cut() -> None:
    error = ApeError("it failed: http://" + "GEHEIM" * 300 + "@host/", got="GET http://" + "GEHEIM" * 300 + "@host/")
    assert "GEH" not in str(error)
    assert "GEH" not in error.summary
