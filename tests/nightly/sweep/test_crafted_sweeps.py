"""Sweeps of extreme size: one message for a file that asks for too much, and a large sweep in reasonable time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.sweep import specification
from tests.conftest import points_of


def test_a_file_that_asks_for_too_much(tmp_path: Path) -> None:
    """A billion trials, and a file that is too large."""
    path = tmp_path / "x.toml"
    many = ", ".join(f"0.{i:03d}" for i in range(600))
    head = 'schemes = ["rope"]\ntasks = ["copy"]\n'
    for text, message in (
        (f"{head}[set]\n" + "\n".join(f"{key} = [{many}]" for key in ("dropout", "decay", "base")), "too many trials"),
        ("#" * 20_000, "more than 16,384 bytes"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=message) as caught:
            points_of(specification.read(path))
        assert len(str(caught.value)) < 2000
