"""The command line applies process settings before it imports torch. Only a new interpreter can show this."""

from __future__ import annotations

import pytest

from tests.interpreters import python


@pytest.mark.parametrize("words", [["train", "--help"], ["check", "nothing"], ["sweep", "nothing.toml"]])
def test_the_command_line_asks_before_torch_is_imported(words: list[str]) -> None:
    """The check runs before any import of torch by a command."""
    code = f"""
import sys
from ape_cli.core import runtime
asked = []
runtime.share_cores = lambda: asked.append("torch" in sys.modules)
from ape_cli.cli import app
try:
    app({words!r})
except SystemExit:
    pass
print(asked)
"""
    assert python("-c", code).stdout.splitlines()[-1] == ("[]" if "--help" in words else "[False]")
