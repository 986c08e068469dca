"""Sources of trees of every format, as `ape gen trees` reads them, and the manifest of a dataset made from one.

The files are a user's own, so a changed file may give another dataset. This dataset must be valid, and a refusal must
be one error. If a changed file is refused, `--skip-bad` must leave it out and name it, or be refused as well.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import ApeError
from tests.nightly.fuzz.cases import BrokenRule, Case, Manifest, command

MOST_CHARACTERS = 3000  # of a message


class TreeFiles(Case):
    """Files of trees in a folder. `CONTENT` has their texts by their names."""

    written_by_us = False
    options: tuple[str, ...] = ()
    CONTENT: ClassVar[dict[str, str]] = {}

    def make(self) -> None:
        (self.template / "source").mkdir()
        for name, text in self.CONTENT.items():
            (self.template / "source" / name).write_text(text)

    @property
    def source(self) -> Path:
        """What `--source` names."""
        return self.work / "source"

    def files(self) -> Sequence[Path]:
        return sorted(path for path in (self.work / "source").rglob("*") if path.is_file())

    def seen(self) -> tuple[Any, str]:
        where = self.work.parent / "made"
        shutil.rmtree(where, ignore_errors=True)
        words = ("gen", "trees", "--source", str(self.source), *self.options, "--out", str(where))
        code, _, err = command(*words)
        if not code:
            return self.dataset(where), err
        check_message(err)
        code, _, told = command(*words, "--skip-bad")
        if code:
            check_message(told)
        elif "left out: " not in told:
            raise BrokenRule(f"--skip-bad left out nothing:\n{told}\nwithout it:\n{err}")
        else:
            self.dataset(where)
        raise ApeError(err)

    def dataset(self, where: Path) -> str:
        """The fingerprint of a dataset. Raises `BrokenRule` if it is not valid."""
        for words in (("verify", "--data", str(where)), ("show", str(where), "--row", "0")):
            code, out, err = command(*words)
            if code:
                raise BrokenRule(f"`ape {words[0]}` does not accept the dataset: {out}{err}")
        return str(json.loads((where / "manifest.json").read_text())["fingerprint"])


def check_message(text: str) -> None:
    """Check that a refusal is one error, of some lines. Raises `BrokenRule`."""
    if text.count("error: ") != 1 or len(text) > MOST_CHARACTERS or "  got: " not in text or "Error" in text:
        raise BrokenRule(f"no clear message, {len(text):,} characters:\n{text[:2000]}")


class Json(TreeFiles):
    """Objects without labels and children."""

    json = True
    options = ("--labels", "token")
    words = (b"[", b"{", b"]", b"}", b",", b":", b'"', b'"a"', b'"label"', b'"children"', b'"\\ud800"', b"null", b"\\")
    CONTENT: ClassVar[dict[str, str]] = {
        f"{n}.json": json.dumps({"a": [n, "x", None], "é": {"b": n / 7}}) for n in range(4)
    }


class JsonLabels(TreeFiles):
    """Objects with labels and children."""

    json = True
    options = ("--labels", "token")
    words = Json.words
    CONTENT: ClassVar[dict[str, str]] = {
        f"{n}.json": json.dumps({"label": "S", "children": [{"label": n}, {"label": "y"}]}, indent=1) for n in range(4)
    }


class JsonLines(TreeFiles):
    """Documents on lines, with masked labels."""

    options = ("--task", "mask", "--labels", "token")
    words = Json.words
    CONTENT: ClassVar[dict[str, str]] = {
        "a.jsonl": "".join(json.dumps({"a": [n, [f"x{n % 3}"]], "b": {"c": True}}) + "\n" for n in range(12))
    }


class Python(TreeFiles):
    """Functions, with queries."""

    options = ("--task", "query", "--labels", "token")
    words = (
        b"(", b")", b"[", b":", b"\\", b'"', b"'''", b"f'{", b"lambda:", b"not ", b"x.", b"a.b", b"import a.b\n", b"#",
        b"# coding: utf-7\n", b"# coding: idna\n", b"# coding: base64\n", b"if x:\n ", b"elif x: pass\n", b"0x", b"-",
        b"def f(): pass\n", b"async ", b"await ", b"case [", b"*", b"**", b"@x\n", b"\\N{DASH}", b"1_0", b"e9",
        b"global x\n",
    )  # fmt: skip
    CONTENT: ClassVar[dict[str, str]] = {
        f"m{n}.py": (
            "# coding: utf-8\nimport os.path as p\n\n\nclass A:\n    @property\n"
            f"    def f{n}(self, *a: int, b={n}, **c):\n        return f'{{b!r:>{{a}}}}' + 'é' * {n}\n\n\n"
            f"async def g{n}(x):\n    match x:\n        case [1, *_] | None:\n            global y\n"
            f"    return [await z async for z in x if not z], lambda q: -q ** {n}j\n"
        )
        for n in range(4)
    }


class SExpressions(TreeFiles):
    """Sentences of the Penn Treebank, mirrored."""

    options = ("--task", "rotate", "--labels", "token")
    words = (b"(", b")", b"( ", b"() ", b"((a) b)", b";", b'"', b"'", b"\\", b"(: ;)", b"#list", b"#atom")
    CONTENT: ClassVar[dict[str, str]] = {
        "a.mrg": "".join(f"( (S (NP (DT the) (NN cat{n})) (VP (VBZ sits) (: ;) (PP on)) (. .)) )\n" for n in range(8)),
        "b.sexp": '; a comment\n(define (f x) (if (< x 2) "a \\" text" (* x (f (- x 1)))))\n',
        "c.sexp": "(a b)\n((c) d)\n()\n",
    }


class Conllu(TreeFiles):
    """Dependency trees in documents, with anonymous labels."""

    options = ("--labels", "anonymous")
    words = (
        b"#", b"# newdoc\n", b"# global.columns = ID FORM\n", b"1", b"0", b"1-2", b"1.1", b"-1", b"_", b"\t", b"\t_",
        b"\n\n", b"1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n", b"2\tb\t_\t_\t_\t_\t1\tobj\t_\t_\n", b"\xc2\xb2", b"1_0",
        b"3-1\ta", b"|", b"=",
    )  # fmt: skip
    CONTENT: ClassVar[dict[str, str]] = {
        f"{n}.conllu": (
            f"# newdoc id = {n}\n# text = Cats sit.\n1\tCats\tcat\tNOUN\t_\tNumber=Plur\t2\tnsubj\t_\t_\n"
            "2-3\tsitdown\t_\t_\t_\t_\t_\t_\t_\t_\n2\tsit\tsit\tVERB\t_\t_\t0\troot\t_\t_\n"
            f"2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n3\tdown{n}\t_\tADV\t_\t_\t{2 - n % 2}\tadvmod\t_\t_\n\n"
            "# newdoc\n1\tYes\t_\tINTJ\t_\t_\t0\troot\t_\t_\n2\t!\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"
        )
        for n in range(4)
    }


MARKUP = (
    b"<", b">", b"</", b"<a>", b"</a>", b"<a b='c'>", b"<b>", b"&amp;", b"&nbsp;", b"&#0;", b"&#55296;", b"&#x110000;",
    b"&x;", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?x", b"?>", b" a=''", b" a=1", b" xmlns:a='b'", b"a:", b"=",
    b'"', b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>",
    b"<!DOCTYPE a SYSTEM 'b'>", b"<?xml version='1.0' encoding='utf-7'?>", b"<?xml version='1.1'?>",
    b"<xi:include href='/etc/passwd'/>",
)  # fmt: skip


class Xml(TreeFiles):
    """Formulas in MathML, with texts and attributes."""

    options = ("--labels", "token")
    words = MARKUP
    CONTENT: ClassVar[dict[str, str]] = {
        f"{n}.xml": (
            '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE math>\n<math xmlns="http://www.w3.org/1998/Math/MathML">\n'
            f" <mrow id='r{n}'><mi>x</mi><!-- a --><mo>&#x2b;</mo>\n  <mn>{n}</mn> and &lt; é</mrow>\n</math>\n"
        )
        for n in range(5)
    }


class Html(TreeFiles):
    """Pages, in two orders."""

    options = ("--task", "convert", "--branching", "6")
    words = (*MARKUP, b"<meta charset=utf-7>", b"<script>", b"<table>", b"<p>", b"<svg>", b"<template>", b"<frameset>")
    CONTENT: ClassVar[dict[str, str]] = {
        f"{n}.html": (
            f"<!doctype html>\n<meta charset='utf-8'>\n<title>Page {n}</title>\n<p class=a id={n}>one<br>two &nbsp;\n"
            f"<ul><li>a<li>b{'<li>c' * n}</ul>\n<script>if (1 < 2) {{}}</script>\n"
        )
        for n in range(5)
    }


class JavaScript(TreeFiles):
    """Programs that tree-sitter parses."""

    options = ("--labels", "token", "--branching", "12")
    words = (
        b"(", b")", b"[", b"{", b"}", b"`", b"`${", b"/", b"/*", b"//", b"=>", b"?.", b";", b"'", b"-", b"!", b"<a>",
        b"</a>", b"async ", b"await ", b"function f() {}", b"class A {}", b"if (a) ", b"else ", b"#!", b"#x",
        b"\\u{1F600}", b"0b", b"+1",
    )  # fmt: skip
    CONTENT: ClassVar[dict[str, str]] = {
        f"{n}.js": (
            f"// a comment\nexport default async function* f{n}(a, {{b = {n}, ...c}}) {{\n  const d = `x${{a + b}}é`;\n"
            "  return a?.b ?? /r[/]x/g.test(d) ? await d : !c;\n}\n"
        )
        for n in range(5)
    }


class ParquetTexts(TreeFiles):
    """A column of texts in a Parquet file, each a JSON document."""

    options = ("--format", "json", "--column", "text", "--labels", "token")

    def make(self) -> None:
        texts = [json.dumps({"a": [n % 5, "x"], "é": n % 3}) for n in range(40)]
        table = pa.table({"number": list(range(40)), "text": texts})
        (self.template / "source").mkdir()
        pq.write_table(table, self.template / "source" / "x.parquet", row_group_size=16, compression="zstd")

    @property
    def source(self) -> Path:
        return self.work / "source" / "x.parquet"


class TreeManifest(Manifest):
    """The manifest of a dataset made from files, whose digests it has in its field `sources`."""

    def make(self) -> None:
        (self.template / "source").mkdir()
        for number in range(20):
            (self.template / "source" / f"{number} é.json").write_text(json.dumps([number, {"a": [number % 3]}]))
        where = ("--source", str(self.template / "source"), "--out", str(self.template / "data"))
        code, _, err = command("gen", "trees", "--labels", "token", *where)
        assert not code, err


CASES: dict[str, type[Case]] = {
    "trees: JSON": Json,
    "trees: JSON with labels": JsonLabels,
    "trees: JSON lines": JsonLines,
    "trees: Python": Python,
    "trees: s-expressions": SExpressions,
    "trees: CoNLL-U": Conllu,
    "trees: XML": Xml,
    "trees: HTML": Html,
    "trees: JavaScript": JavaScript,
    "trees: Parquet": ParquetTexts,
    "manifests of trees": TreeManifest,
}
