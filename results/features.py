"""Which features of the documents work here: differences of two rows of `features.toml` and other sweeps, by seed.

The rule was written before any of its runs. A feature has two differences on a task, paired by seed as in `worth.py`,
with their 95% intervals: from the same model without positions (the *gain*), and from the usual form of the feature
(the *gap*). No row has a locality bias. The answer is the first of these that is true:

- `no`: the interval of the gain is not above 0, so no effect is shown.
- `as well`: the interval of the gap lies within one point of 0.
- `better`, `less well`: the interval of the gap is above 0, or below.
- `yes`: the interval of the gap contains 0 and is wider, so whether the feature works as well is open.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ape_cli.runs.registry import Registry
from results.plans import registered
from results.worth import Row, Scores, Worth, scores, worth

SEEDS = 3
MARGIN = 1.0  # points within which a feature works as well as the usual form
WORDS, TREES, RING = ("reverse", "repeat"), ("tree-rotate/breadth-to-depth", "tree-ops/breadth-to-depth"), "ring-shift"
BOTH = (WORDS[0], TREES[1])  # the tasks of the kinds of attention
METRICS = ("token_accuracy", "exact_match")
NONE, SINUSOIDAL = Row("none"), Row("sinusoidal")
KINDS = {  # kinds of attention: their settings, and where they are described
    "linear": ("attention=linear", "paper, 3.4.4"),
    "clustered": ("attention=clustered, clusters=8", "paper, 3.4.4"),
    "softmax-free": ("attention=softmax-free", "paper, 3.4.4"),
    "euclidean": ("attention=euclidean", "notes, 2.7"),
    "squared-euclidean": ("attention=squared-euclidean", "notes, 2.7"),
    "epanechnikov": ("attention=epanechnikov", "notes, 2.7"),
    "boxcar": ("attention=boxcar", "notes, 2.7"),
}


class Feature(NamedTuple):
    """A feature of the documents, its row, and the rows that it is compared with."""

    about: str
    described: str  # the document and its section
    row: Row
    usual: Row
    without: Row
    columns: tuple[str, ...]


def absolute(scheme: str, side: str, columns: tuple[str, ...]) -> Feature:
    """Operators that act on one side only, which makes positions absolute."""
    row, usual = Row(scheme, f"decay=1, side={side}"), Row(scheme, "decay=1")
    about = f"`{scheme}` on the {side} only, not on both sides"
    return Feature(about, "paper, 3.4.1", row, usual, NONE, columns)


def kind(name: str, scheme: str, own: str) -> Feature:
    """A kind of attention with a scheme, whose settings are `own`."""
    settings, described = KINDS[name]
    row = Row(scheme, ", ".join(filter(None, (settings, own))))
    return Feature(
        f"`{name}` attention with `{scheme}`, not `dot`", described, row, Row(scheme, own), Row("none", settings), BOTH
    )


TREE = Row("tree")
FEATURES = (
    *(absolute("orthogonal-seq", side, WORDS) for side in ("query", "key")),
    *(absolute("orthogonal-tree", side, TREES) for side in ("query", "key")),
    Feature(
        "`orthogonal` with the period of the ring, not `orthogonal-seq`",
        "paper, 3.4.2",
        Row("orthogonal", "decay=1"),
        Row("orthogonal-seq", "decay=1"),
        NONE,
        (RING,),
    ),
    Feature(
        "`tree` with several weights, not one",
        "slides, *Geometric weighting*",
        TREE,
        Row("tree", "copies=1"),
        NONE,
        TREES,
    ),
    Feature(
        "designed vectors (`tree`), not learned (`tree-learned`)",
        "slides, *Why design the embedding*",
        TREE,
        Row("tree-learned"),
        NONE,
        TREES,
    ),
    Feature(
        "powers of a learned matrix, not of the given one (`sinusoidal`)",
        "notes, definition 3.1",
        Row("matrix-power", "learned=True"),
        SINUSOIDAL,
        NONE,
        WORDS[:1],
    ),
    Feature(
        "powers that multiply the embeddings, not added (`sinusoidal`)",
        "notes, definition 3.7",
        Row("matrix-power", "multiplicative=True"),
        SINUSOIDAL,
        NONE,
        WORDS[:1],
    ),
    *(kind(name, *own) for name in KINDS for own in (("orthogonal-seq", "decay=1"), ("rope", ""))),
)


class Found(NamedTuple):
    """The gain and the gap of a feature on a task, in points. Each is None without runs."""

    gain: Worth | None
    gap: Worth | None

    @classmethod
    def of(cls, feature: Feature, column: str, of_rows: Scores) -> Found:
        """Those of the runs of the feature's rows."""
        return cls(*(worth(feature.row, other, column, of_rows) for other in (feature.without, feature.usual)))

    @property
    def answer(self) -> str:
        """The answer by the rule of this module; a dash before all seeds are finished."""
        if self.gain is None or self.gap is None or min(self.gain.seeds, self.gap.seeds) < SEEDS:
            return "—"
        assert self.gain.half is not None
        assert self.gap.half is not None
        low, high = self.gap.mean - self.gap.half, self.gap.mean + self.gap.half
        if self.gain.mean - self.gain.half <= 0:
            return "no"
        if -MARGIN <= low and high <= MARGIN:
            return "as well"
        return "better" if low > 0 else "less well" if high < 0 else "yes"


def scores_of(registry: Registry, metric: str = METRICS[0]) -> Scores:
    """The scores of the rows of all features."""
    columns = tuple(dict.fromkeys(column for feature in FEATURES for column in feature.columns))
    schemes = {row.scheme for of in FEATURES for row in (of.row, of.usual, of.without)}
    return scores(registry, columns, schemes, metric)


def answer(of_rows: Scores | None = None) -> str:
    """The answer of the page: how many comparisons have each answer, and which features show no effect."""
    of_rows = scores_of(registered("features")) if of_rows is None else of_rows
    found = [(of, column, Found.of(of, column, of_rows).answer) for of in FEATURES for column in of.columns]
    finished = [item for item in found if item[2] != "—"]
    if not finished:
        return "no comparison has its three seeds yet."
    count = Counter(works for _, _, works in finished)
    without: dict[str, list[str]] = {}  # the tasks on which a feature shows no effect
    for feature, column, works in finished:
        if works == "no":
            without.setdefault(feature.about, []).append(f"`{column}`")
    listed = "; ".join(f"{about.partition(',')[0]} ({', '.join(columns)})" for about, columns in without.items())
    shown = f" No effect is shown: {listed}." if listed else ""
    so_far = (
        "" if len(finished) == len(found) else f" So far, {len(finished)} of {len(found)} comparisons are finished."
    )
    return (
        f"in {len(finished) - count['no']} of {len(finished)} comparisons the feature works: {count['better']} better "
        f"than the usual form, {count['as well']} as well, {count['less well']} less well, and {count['yes']} "
        f"open.{shown}{so_far}"
    )


def table(registry: Registry) -> str:
    """The table of all features, a line for each task."""
    by_metric = [scores_of(registry, metric) for metric in METRICS]
    lines = [
        "| feature | described in | task | minus no positions | minus the usual form | works? | by exact match |",
        "|---|---|---|---:|---:|---|---|",
    ]
    for feature in FEATURES:
        for column in feature.columns:
            tokens, whole = (Found.of(feature, column, of_rows) for of_rows in by_metric)
            shown = [str(of) if of else "—" for of in tokens]
            cells = [feature.about, feature.described, f"`{column}`", *shown, tokens.answer, whole.answer]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
