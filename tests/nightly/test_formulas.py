"""Every formula of the documentation becomes MathML when the site is built."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from markdown import Markdown

from tests.conftest import load_file
from tests.test_docs import PAGES, ROOT


@pytest.fixture(scope="module")
def formulas() -> ModuleType:
    """Imports tools/formulas.py."""
    return load_file(ROOT / "tools" / "formulas.py")


def test_each_formula_is_converted(formulas: ModuleType) -> None:
    """No dollar sign is left outside of code, and no command of LaTeX inside a formula."""
    count = 0
    for page, text in PAGES.items():
        if not page.startswith("docs/"):
            continue
        made = Markdown(extensions=[formulas.makeExtension(), "tables", "pymdownx.superfences"]).convert(text)
        left = re.sub(r"<(code|pre)\b.*?</\1>", "", made, flags=re.S)
        assert "$" not in left, (page, left[max(0, left.find("$") - 80) :][:160])
        found = re.findall(r"<math\b.*?</math>", made, flags=re.S)
        assert not [each for each in found if "\\" in each], page
        count += len(found)
    assert count > 40
