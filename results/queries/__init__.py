"""The queries in `results/pages`: what the pages of results say, computed from the committed runs.

A query is a Python expression that sees the names of `results.numbers` and of these modules:
`{{small("reverse", "none")}}` is the mean over seeds. Scores are percentages and differences are points, unless a
function says otherwise.
"""

from __future__ import annotations

import ast
import math
import re
from statistics import fmean

from ape_cli.reports.stats import least_p
from results import authors_trees, bounds, claims, controls, features, numbers
from results.queries import answers, chomsky, costs, indirect, ingredients, machines, other_tasks, sizes, tables

NAMES = {
    "authors_trees": authors_trees,
    "bounds": bounds,
    "claims": claims,
    "controls": controls,
    "features": features,
    "fmean": fmean,
    "least_p": least_p,
    "math": math,
}
for module in (numbers, answers, chomsky, costs, indirect, ingredients, machines, other_tasks, sizes, tables):
    NAMES |= vars(module)
QUERY = re.compile(r"\{\{(.+?)\}\}", flags=re.DOTALL)


def render(template: str) -> str:
    """A text with the value of each query in its place: `{{span(x for x in …)}}`, `{{medium("copy", "none"):.1f}}`.

    A query is the inside of an f-string's braces. A float without a format has two digits.
    """

    def value(query: re.Match[str]) -> str:
        (field,) = ast.parse(f"f'''{{{query[1]}}}'''", mode="eval").body.values
        answer = eval(compile(ast.Expression(field.value), query[0], "eval"), NAMES)
        spec = field.format_spec.values[0].value if field.format_spec else ".2f" * isinstance(answer, float)
        return format(answer, spec)

    return QUERY.sub(value, template)
