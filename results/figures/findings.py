"""The rows of each finding's figure, from the committed runs.

A row whose runs are missing is left out, and so is a figure without rows. Scores are those on the test split of the
data that a run was trained on, with teacher forcing, in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

import polars as pl

from ape_cli.core.errors import ApeError
from ape_cli.reports import evaluations, paper
from ape_cli.reports.best_by import Tuned
from ape_cli.reports.descriptions import read_settings
from ape_cli.reports.evaluations import Options
from ape_cli.reports.views.generalisation import Generalisation, over_unseen
from ape_cli.runs.registry import Registry
from ape_cli.sweep.stages import Stages
from results import worth
from results.figures.forest import Block, Cell, Finding, Row

FLAT = ("sinusoidal", "rope", "orthogonal-seq")  # the schemes of table 2 that read a tree as a sequence
SCHEMES = (*FLAT, "tree", "orthogonal-tree")
TASKS = ("tree-copy", "tree-rotate", "c3", "tree-ops")
PAPER_SIZE = "precision=tf32"  # the variant of the runs at the paper's size
NAMES = {"token_accuracy": "token accuracy", "exact_match": "exact match"}
BIAS = 0.98  # the locality bias of the orthogonal schemes, and of others with this setting

Seeds = dict[int, float]


class Scores:
    """The scores of all runs by dataset, scheme and variant (the settings that differ from the preset)."""

    def __init__(self, registry: Registry) -> None:
        """Read all runs."""
        values, _ = evaluations.scores(registry)
        self.found: dict[tuple[str, str], dict[tuple[str, str], Seeds]] = {}  # by dataset and metric, then by row
        own = pl.col("fingerprint") == pl.col("trained_fingerprint")
        for line in values.filter(own, split="test", decode="teacher").iter_rows(named=True):
            rows = self.found.setdefault((line["trained_on"], line["metric"]), {})
            rows.setdefault((line["scheme"], line["variant"]), {})[line["seed"]] = 100 * line["value"]

    def rows(self, data: str, metric: str = "token_accuracy") -> dict[tuple[str, str], Seeds]:
        """The scores on a dataset by scheme and variant, then by seed."""
        return self.found.get((data, metric), {})

    def seeds(self, data: str, scheme: str, variant: str = "", metric: str = "token_accuracy") -> Seeds:
        """The scores of a row by seed. It is empty if there are no such runs."""
        return self.rows(data, metric).get((scheme, variant), {})


def cells(of: Mapping[str, Seeds]) -> dict[str, Cell]:
    """The cells of a row, without those that have no runs."""
    return {column: Cell.of(seeds.values()) for column, seeds in of.items() if seeds}


def differences(of: Mapping[str, tuple[Seeds, Seeds]]) -> dict[str, Cell]:
    """The cells of a row of differences, over the seeds that both sides have."""
    paired = {column: {seed: a[seed] - b[seed] for seed in a.keys() & b.keys()} for column, (a, b) in of.items()}
    return cells(paired)


def sinusoidal(scores: Scores) -> Finding:
    """The paper's scores of `sinusoidal`, and ours."""
    columns = {"tree-rotate/breadth": "tree-rotate-breadth", "copy": "copy"}
    told = {column: Cell(100 * paper.scores()["sinusoidal", column][0], None, 3) for column in columns}
    sizes = {"medium": "", "paper": PAPER_SIZE}
    ours = [("none", "medium"), ("sinusoidal", "medium"), ("sinusoidal", "paper")]
    rows = [
        Row(
            f"{scheme}, {'the paper’s size' if preset == 'paper' else preset}",
            cells({c: scores.seeds(f"{data}-{preset}", scheme, sizes[preset]) for c, data in columns.items()}),
            scheme,
        )
        for scheme, preset in ours
    ]
    rows = [row for row in rows if row.cells]
    first = [Row("sinusoidal, in the paper", told, "sinusoidal", hollow=True)] * bool(rows)
    return Finding([Block("", [*first, *rows])], "Token accuracy in %. The paper prints a mean over 3 seeds.")


def order(scores: Scores) -> Finding:
    """What writing source and target in the same order is worth."""
    rows = [
        Row(
            scheme,
            differences(
                {
                    task: tuple(scores.seeds(f"{task}-{order}-small", scheme) for order in ("depth", "breadth-to-depth"))
                    for task in TASKS
                }
            ),
            scheme,
        )
        for scheme in SCHEMES
    ]
    foot = "Points of token accuracy, preset small: source and target both written depth first, less source breadth first."
    return Finding([Block("", rows, None)], foot, differences=True)


def structure(scores: Scores) -> Finding:
    """By how much the encoding that reads the structure leads the best other row."""
    trees = {f"{task}/breadth-to-depth": f"{task}-breadth-to-depth-medium" for task in TASKS}
    natural = {
        f"{what}, {labels} labels": f"trees-stdlib-{what}-{labels}-depth"
        for what in ("copy", "rotate", "mask")
        for labels in ("token", "anonymous")
    }
    products = {
        **{f"{task}/depth": (f"{task}-depth-small", "orthogonal") for task in ("forest-reverse", "forest-rotate")},
        **{task: (f"{task}-small", "orthogonal") for task in ("word-grid-rotate", "quadtree-expand")},
        **{task: (f"{task}-small", "orthogonal-grid") for task in ("box-rotate", "grid-path")},
    }
    blocks = [
        Block("The paper’s trees, preset medium, token accuracy", [_lead(scores, *i, "orthogonal-tree") for i in trees.items()], None),
        Block("Python functions, preset small, token accuracy", [_lead(scores, *i, "orthogonal-tree") for i in natural.items()], None),
        Block(
            "Sequences of trees, grids of words, quadtrees, boxes and grids, preset small, exact match",
            [_lead(scores, name, data, own, "exact_match") for name, (data, own) in products.items()],
            None,
        ),
    ]
    return Finding(blocks, "", differences=True)


def _lead(scores: Scores, name: str, data: str, own: str, metric: str = "token_accuracy") -> Row:
    """By how much a scheme leads the other row with the best mean, and the one of these that reads a sequence."""
    rows = scores.rows(data, metric)
    ours = next((seeds for (scheme, _), seeds in rows.items() if scheme == own), {})
    found = {}
    for column, schemes in {"the best other row": None, "the best row that reads a sequence": FLAT}.items():
        others = {row: s for row, s in rows.items() if row[0] != own and (schemes is None or row[0] in schemes)}
        if ours and others:
            best = max(others, key=lambda row: fmean(others[row].values()))
            found |= {column: cell._replace(note=best[0]) for cell in differences({"": (ours, others[best])}).values()}
    return Row(name, found)


def ingredients(registry: Registry) -> Finding:
    """What each ingredient of the orthogonal schemes is worth, as the table of `worth` has it."""
    made = worth.cells(worth.scores(registry))
    rows = [
        Row(
            name.replace("`", ""),
            {c: Cell(made[name, c].mean, made[name, c].half, made[name, c].seeds) for c in worth.COLUMNS if (name, c) in made},
        )
        for name in (*worth.INGREDIENTS, *worth.TUNED)
    ]
    return Finding([Block("", rows, None)], "Points of token accuracy, preset small.", differences=True)


def locality(scores: Scores) -> Finding:
    """Schemes with and without the locality bias."""

    def row(scheme: str, columns: Iterable[str], biased: bool) -> Row:
        other, own = f"decay={BIAS}", ""
        if scheme.startswith("orthogonal"):
            other, own = "", "decay=1"
        found = {}
        for column in columns:
            pair = [scores.seeds(f"{column.replace('/', '-')}-small", scheme, variant) for variant in (own, other)]
            found[column] = {seed: pair[biased][seed] for seed in pair[0].keys() & pair[1].keys()}
        return Row(f"{scheme}, {'bias' if biased else 'no bias'}", cells(found), scheme, hollow=not biased)

    words, trees = ("reverse", "repeat"), ("tree-rotate/depth", "c3/breadth", "tree-ops/breadth")
    blocks = [
        Block("", [row(s, columns, biased) for s in schemes for biased in (False, True)])
        for columns, schemes in ((words, ("none", "orthogonal-seq")), (trees, ("orthogonal-seq", "orthogonal-tree")))
    ]
    return Finding(blocks, f"Token accuracy in %, preset small. The bias multiplies by {BIAS} for each step of distance.")


def metric(scores: Scores) -> Finding:
    """Token accuracy and exact match of the same runs."""
    found = {s: {name: scores.seeds("tree-ops-breadth-small", s, metric=m) for m, name in NAMES.items()} for s in SCHEMES}
    rows = [Row(scheme, cells(of), scheme) for scheme, of in found.items()]
    rows = [row for row in rows if row.cells]
    rows.sort(key=lambda row: -row.cells[NAMES["token_accuracy"]].mean)
    return Finding([Block("", rows, (50, 100))], "Scores on tree-ops/breadth in %, preset small, in the order of token accuracy.")


def bound(scores: Scores) -> Finding:
    """Exact match at the paper's size, with and without a bound on the paths."""
    data = "tree-rotate-breadth-paper"
    rows = [("orthogonal-tree", ""), ("tree", ""), ("tree", "max_size=7"), *((scheme, "") for scheme in FLAT[::-1])]
    made = []
    for scheme, bounded in rows:
        seeds = scores.seeds(data, scheme, ", ".join(filter(None, (bounded, PAPER_SIZE))), "exact_match")
        name = f"{scheme} ({bounded})" if bounded else scheme
        made.append(Row(name, cells({"": seeds}), name))
    foot = "Exact match on tree-rotate/breadth in %, at the paper’s size. max_size=7 cuts the paths of nodes deeper than 7."
    return Finding([Block("", made, (80, 100))], foot)


def images(scores: Scores) -> Finding:
    """Top-1 accuracy on digits."""
    rows = [("none", ""), ("sinusoidal", ""), ("sinusoidal", "structure=grid(2)"), ("learned", ""), ("orthogonal-seq", "")]
    rows += [("orthogonal-grid", ""), ("orthogonal-grid", "distance=euclidean")]
    made = []
    for scheme, variant in rows:
        name = f"{scheme} ({variant})" if variant else scheme
        made.append(Row(name, cells({"": scores.seeds("images-digits", scheme, variant)}), name))
    foot = "Top-1 accuracy on scikit-learn’s digits in %, preset small. One of the 359 test images is 0.28 points."
    return Finding([Block("", made, (90, 100))], foot)


def beyond(registry: Registry, plans: Mapping[str, Stages]) -> Finding:
    """Exact match beyond the training sizes, with the learning rates that validation scores chose."""
    blocks: dict[str, dict[str, dict[str, Cell]]] = {}  # by heading and row: the cells of the columns
    looks: dict[str, str] = {}
    for sweep, plan in plans.items():
        chosen = [item.name for item in plan.trials if item.state == "finished" and item.name not in plan.undecided]
        options = Options(metric="exact_match", best_by="validation")
        try:
            lines, _ = Generalisation().read(Tuned(registry.only(chosen), []).runs(options), options)
        except ApeError:  # no run is finished
            continue
        for line in over_unseen(lines.filter(metric="exact_match")).iter_rows(named=True):
            settings = read_settings(line["settings"]).variant
            model = settings.get("model", "model=encoder-decoder").partition("=")[2]
            heading = f"{sweep}, {model}" if sweep == "length" else sweep
            row = line["scheme"] + ", randomised" * ("positions" in settings)
            looks[row] = line["scheme"]
            column = f"{line['task']}/{line['order']}" if line["order"] else line["task"]
            values = [100 * of["value"] for of in line["by_seed"]]
            blocks.setdefault(heading, {}).setdefault(row, {})[column] = Cell.of(values)
    made = [
        Block(heading, [Row(row, of, looks[row]) for row, of in rows.items()])
        for heading, rows in blocks.items()
    ]
    foot = "Exact match in %, preset small: the mean over the unseen sizes, each with the same weight, at tuned learning rates."
    return Finding(made, foot)


def drawable(finding: Finding) -> Finding | None:
    """The finding without rows and blocks that have no cells. None if nothing is left."""
    blocks = [b._replace(rows=[row for row in b.rows if row.cells]) for b in finding.blocks]
    blocks = [block for block in blocks if block.rows]
    return finding._replace(blocks=blocks) if blocks else None


def findings(registry: Registry, plans: Mapping[str, Stages]) -> dict[str, Finding]:
    """The figures that have rows, by name."""
    scores = Scores(registry)
    of_scores = (sinusoidal, order, structure, locality, metric, bound, images)
    made = {make.__name__: make(scores) for make in of_scores}
    made |= {"ingredients": ingredients(registry), "beyond": beyond(registry, plans)}
    return {name: found for name, one in made.items() if (found := drawable(one))}
