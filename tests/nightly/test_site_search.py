"""The search of the built site finds the right page first."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import ROOT, python

FOUND = {  # the page that a search has to find first, below docs/
    "length generalisation": "guides/length-generalisation.md",
    "extrapolation": "guides/length-generalisation.md",
    "learning rate sweep": "guides/tune.md",
    "delete a run": "guides/runs.md",
    "cite": "citation.md",
    "cluster": "guides/cluster.md",
    "run files": "reference/run-files.md",
    "sweep file": "reference/sweep-file.md",
    "add a scheme": "guides/add-scheme.md",
    "troubleshooting": "guides/troubleshooting.md",
    "glossary": "reference/glossary.md",
}


def test_the_search_finds_the_right_page_first(tmp_path: Path) -> None:
    """It needs Node.js, which Playwright brings along."""
    driver = pytest.importorskip("playwright._impl._driver", reason="needs `pip install playwright`")
    node, _ = driver.compute_driver_executable()
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    python("-m", "zensical", "build", where=tmp_path)
    script = Path(__file__).with_name("search.cjs")
    done = subprocess.run([node, script, tmp_path / "site", *FOUND], capture_output=True, text=True, check=True)
    found = [next(iter(addresses), "").split("#")[0] for addresses in json.loads(done.stdout)]
    assert dict(zip(FOUND, found, strict=True)) == {
        phrase: page.removesuffix(".md") + "/" for phrase, page in FOUND.items()
    }
