"""Text for each output medium: a name from a file or an option is shown as text and does nothing else.

There is one function for each medium. It is applied where text leaves the program: to what is printed on a terminal,
and to the names in Markdown, LaTeX, HTML, CSV and JSON.
"""

from __future__ import annotations

import html as standard_html
import json as standard_json
import re
from typing import Any

# control characters except tab and line break; marks that change the direction of text; separators of lines
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_MARKDOWN = re.compile(r"[\\|<`\[\]]|\*(?=.*\*)")  # a * alone is text
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "±": "$\\pm$",
    "×": "$\\times$",
    "≠": "$\\neq$",
    "—": "---",
    "–": "--",
    "·": "$\\cdot$",
    "<": "\\textless{}",  # the usual fonts of LaTeX have other characters in these three places
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "[": "{[}",  # otherwise it begins an argument of the command before it, such as the end of a line
}


_WORD = re.compile(r"\S+")
_ADDRESS = re.compile(r"(?<![\w+.-])\w[\w+.-]*+:/+")  # the beginning of an address
_NO_PORT = re.compile(r"[^/@:\[]*+:(?!\d{1,5}(?:[^\w.-]|$))(?=[^/\s\"',;)])")  # a name with a colon, as KEY:SECRET
_QUOTE = re.compile(r"[\"']")
_QUERY = re.compile(
    r"(?<=[?&])([\w-]*(?:signature|credential|token|secret|password|passwd|key|keyid|sig)=)[^&\s\"']+", re.I
)


def redacted(text: str) -> str:
    """A text without the credentials of the addresses in it.

    Hidden are: what stands before the last `@` after the beginning of an address, everything after a name with a colon
    that is not a port, and the values of keys and signatures in a query.

    >>> redacted("cannot reach http://me:secret/part@host:9000/x?X-Amz-Signature=abc&y=1")
    'cannot reach http://…@host:9000/x?X-Amz-Signature=…&y=1'
    >>> redacted("cannot read s3:/me:secret/part, but http://localhost:9000/x")
    'cannot read s3:/… but http://localhost:9000/x'
    """
    has_address = ":/" in text or "=" in text
    return _WORD.sub(lambda match: _without_secrets(match[0]), text) if has_address else text


def _without_secrets(word: str) -> str:
    """`redacted` for a text without spaces. It takes time in proportion to its length."""
    first = _ADDRESS.search(word)
    at = word.rfind("@")
    if first and at >= first.end():
        word = f"{word[: first.end()]}…{word[at:]}"
    for match in _ADDRESS.finditer(word):
        if _NO_PORT.match(word, match.end()):
            quote = _QUOTE.search(word, match.end())
            word = f"{word[: match.end()]}…{word[quote.start() :] if quote else ''}"
            break
    return _QUERY.sub(lambda match: f"{match[1]}…", word)


def terminal(text: str) -> str:
    r"""A text for a terminal. Control characters become visible; tabs and line breaks stay.

    >>> terminal("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    r"""`terminal` for a name or a cell of a table, without tabs and line breaks.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return terminal(text.replace("\n", "\\n").replace("\t", "\\t"))


def markdown(text: str) -> str:
    r"""A name or a cell in Markdown: no cell ends, and no link, code, emphasis or HTML begins.

    >>> markdown("a|b <script>"), markdown("seq*seq*seq")
    ('a\\|b &lt;script>', 'seq\\*seq*seq')
    """
    return _MARKDOWN.sub(lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", one_line(text))


def markdown_prose(text: str) -> str:
    r"""Sentences in Markdown. Code between backticks stays code; everything else is as in `markdown`.

    >>> markdown_prose("`ape verify` names <b>: ![x](y), `")
    '`ape verify` names &lt;b>: !\\[x\\](y), \\`'
    """
    parts = one_line(text).split("`")
    last = [f"\\`{markdown(parts.pop())}"] if len(parts) % 2 == 0 else []
    return "".join(f"`{part}`" if i % 2 else markdown(part) for i, part in enumerate(parts)) + "".join(last)


def code(text: str) -> str:
    """A name as code in Markdown.

    >>> code("rope"), code("a`<b>")
    ('`rope`', '``a`<b>``')
    """
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def latex(text: str) -> str:
    r"""A text in LaTeX.

    >>> latex("50% of a_b")
    '50\\% of a\\_b'
    """
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def html(text: str) -> str:
    """A text in HTML, also within an attribute.

    >>> html("<b>")
    '&lt;b&gt;'
    """
    return standard_html.escape(one_line(text))


def csv(text: str) -> str:
    """A text in a cell of a CSV file. A spreadsheet does not take it for a formula.

    >>> csv("=1+1"), csv("-"), csv("rope")
    ("'=1+1", "'-", 'rope')
    """
    return ("'" if _FORMULA.match(text) else "") + one_line(text)


def json(value: Any) -> str:
    r"""A value as indented JSON that can also be printed on a terminal. A program reads the same value from it.

    >>> json(["\x9b2J"])
    '[\n  "\\u009b2J"\n]'

    Raises `ValueError` if the value contains NaN or an infinity.
    """
    text = standard_json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
