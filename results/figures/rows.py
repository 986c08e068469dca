"""The rows of figures that compare a few named rows of the tables."""

from __future__ import annotations

from collections.abc import Iterable

from ape_cli.reports import published
from results.figures.forest import Block, Cell, Finding, Row
from results.figures.scores import FLAT, NAMES, SCHEMES, TASKS, Scores, cells, differences

PAPER_SIZE = "precision=tf32"  # the variant of the runs at the preprint's size
BIAS = 0.98  # the locality bias of the orthogonal schemes, and of others with this setting


def sinusoidal(scores: Scores) -> Finding:
    """The preprint's scores of `sinusoidal`, and ours."""
    columns = {"tree-rotate/breadth": "tree-rotate-breadth", "copy": "copy"}
    of_column = {n.column: n.value for n in published.load("paper").numbers if n.row == "sinusoidal"}
    told = {column: Cell(100 * of_column[column], None, 3) for column in columns}
    rows = []
    for scheme, preset in (("none", "medium"), ("sinusoidal", "medium"), ("sinusoidal", "paper")):
        variant = PAPER_SIZE if preset == "paper" else ""
        of = {column: scores.seeds(f"{data}-{preset}", scheme, variant) for column, data in columns.items()}
        rows.append(Row(f"{scheme}, {'the preprint’s size' if preset == 'paper' else preset}", cells(of), scheme))
    rows = [row for row in rows if row.cells]
    first = [Row("sinusoidal, in the preprint", told, "sinusoidal", hollow=True)] * bool(rows)
    return Finding([Block("", [*first, *rows])], "Token accuracy in %. The preprint has a mean over 3 seeds.")


def order(scores: Scores) -> Finding:
    """What writing source and target in the same order is worth."""
    rows = []
    for scheme in SCHEMES:
        same, other = (
            {task: scores.seeds(f"{task}-{order}-small", scheme) for task in TASKS}
            for order in ("depth", "breadth-to-depth")
        )
        rows.append(Row(scheme, differences({task: (same[task], other[task]) for task in TASKS}), scheme))
    foot = "Points of token accuracy, preset small: source and target depth first, minus source breadth first."
    return Finding([Block("", rows, TASKS)], foot, differences=True)


OF_THE_BIAS = {42, 43, 44}  # the seeds of `ablation-locality.toml`; another sweep has more of some rows


def locality(scores: Scores) -> Finding:
    """Schemes with and without the locality bias."""

    def row(scheme: str, columns: Iterable[str], biased: bool) -> Row:
        other, own = f"decay={BIAS}", ""
        if scheme.startswith("orthogonal"):
            other, own = "", "decay=1"
        of_column = {}
        for column in columns:
            pair = [scores.seeds(f"{column.replace('/', '-')}-small", scheme, variant) for variant in (own, other)]
            of_column[column] = {seed: pair[biased][seed] for seed in OF_THE_BIAS & pair[0].keys() & pair[1].keys()}
        return Row(f"{scheme}, {'bias' if biased else 'no bias'}", cells(of_column), scheme, hollow=not biased)

    words, trees = ("reverse", "repeat"), ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
    blocks = [
        Block("", [row(s, columns, biased) for s in schemes for biased in (False, True)])
        for columns, schemes in ((words, ("none", "orthogonal-seq")), (trees, ("orthogonal-seq", "orthogonal-tree")))
    ]
    return Finding(blocks, f"Token accuracy in %, preset small. The bias is {BIAS} to the power of the distance.")


def metric(scores: Scores) -> Finding:
    """Token accuracy and exact match of the same runs."""
    by_scheme = {
        s: {name: scores.seeds("tree-ops-breadth-small", s, metric=m) for m, name in NAMES.items()} for s in SCHEMES
    }
    rows = [Row(scheme, cells(of), scheme) for scheme, of in by_scheme.items()]
    rows = [row for row in rows if row.cells]
    rows.sort(key=lambda row: -row.cells[NAMES["token_accuracy"]].mean)
    return Finding([Block("", rows)], "Scores on tree-ops/breadth in %, preset small, in the order of token accuracy.")


def bound(scores: Scores) -> Finding:
    """Exact match at the preprint's size, with and without a bound on the paths."""
    data = "tree-rotate-breadth-paper"
    rows = [("orthogonal-tree", ""), ("tree", ""), ("tree", "max_size=7"), *((scheme, "") for scheme in FLAT[::-1])]
    made = []
    for scheme, bounded in rows:
        seeds = scores.seeds(data, scheme, ", ".join(filter(None, (bounded, PAPER_SIZE))), "exact_match")
        name = f"{scheme} ({bounded})" if bounded else scheme
        made.append(Row(name, cells({"": seeds}), name))
    foot = (
        "Exact match on tree-rotate/breadth in %, at the preprint’s size. max_size=7 cuts paths of more than 7 steps."
    )
    return Finding([Block("", made)], foot)


def images(scores: Scores) -> Finding:
    """Top-1 accuracy on digits."""
    rows = [(scheme, "") for scheme in ("none", "sinusoidal", "learned", "orthogonal-seq", "orthogonal-grid")]
    rows += [("sinusoidal", "structure=grid(2)"), ("orthogonal-grid", "distance=euclidean")]
    made = []
    for scheme, variant in rows:
        name = f"{scheme} ({variant})" if variant else scheme
        made.append(Row(name, cells({"": scores.seeds("images-digits", scheme, variant)}), name))
    foot = "Top-1 accuracy on scikit-learn’s digits in %, preset small. One of the 359 test images is 0.28 points."
    return Finding([Block("", made)], foot)
