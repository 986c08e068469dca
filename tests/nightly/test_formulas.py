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


@pytest.mark.parametrize("wrong", [r"\sqroot{2}", r"\frac{a", r"a & b", r"\begin{pmatrix} 1", r"x^"])
def test_a_mistake_in_a_formula_ends_the_build(formulas: ModuleType, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"the formula {wrong} ")):
        Markdown(extensions=[formulas.makeExtension()]).convert(f"${wrong}$")


def test_a_formula_is_typeset_on_its_own_line(formulas: ModuleType) -> None:
    made = Markdown(extensions=[formulas.makeExtension()]).convert("$a_1 < b_2$\n\n$$\nx^2\n$$\n\n`$PATH` costs \\$5")
    assert '<math display="inline"><mrow><msub><mi>a</mi><mn>1</mn></msub><mo>&lt;</mo>' in made
    assert '<math display="block"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>' in made
    assert "<code>$PATH</code> costs $5" in made
