"""What readers search for is in the title, a heading or the first paragraph of the page that is meant.

`tests/nightly/test_site_search.py` asks the search of the built site.
"""

from __future__ import annotations

import re

import pytest

from tests.test_docs import PAGES

FOUND = {  # the page that a search has to find first, below docs/
    "length generalisation": "guides/length-generalisation.md",
    "length generalization": "guides/length-generalisation.md",
    "extrapolation": "guides/length-generalisation.md",
    "learning rate sweep": "guides/tune.md",
    "hyperparameter search": "guides/tune.md",
    "delete a run": "guides/runs.md",
    "cite": "citation.md",
    "cluster": "guides/cluster.md",
    "slurm": "guides/cluster.md",
    "run files": "reference/run-files.md",
    "sweep file": "reference/sweep-file.md",
    "run.json": "reference/run-files.md",
    "add a scheme": "guides/add-scheme.md",
    "troubleshooting": "guides/troubleshooting.md",
    "glossary": "reference/glossary.md",
}


@pytest.mark.parametrize(("phrase", "page"), FOUND.items())
def test_a_page_says_at_its_top_what_it_is_about(phrase: str, page: str) -> None:
    text = PAGES[f"docs/{page}"]
    headings = re.findall(r"^#+ .*", text, flags=re.M)
    first = text.split("\n\n")[1]
    assert phrase in " ".join([*headings, first]).replace("\n", " ").lower()
