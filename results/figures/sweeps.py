"""The rows of figures that compare the runs of whole sweeps, or parts of evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from ape_cli.core.errors import ApeError
from ape_cli.reports.best_by import Tuned
from ape_cli.reports.evaluations import Options
from ape_cli.reports.views.generalisation import Generalisation, over_unseen
from ape_cli.runs.record import evaluation_name
from ape_cli.runs.registry import Registry
from ape_cli.sweep.stages import Stages
from results import starts, worth
from results.figures.forest import Block, Cell, Finding, Row
from results.figures.scores import FLAT, NAMES, TASKS, TREE, Scores, Seeds, cells, differences, finished

UNSEEN = "Exact match in %, preset small: the mean over the unseen sizes, which count equally"
SWEEPS = ("table2-medium", "trees", "tasks", "length", "depth")  # whose plans say which runs to compare
PARTS = "tree-ops-extract-inner"
EXTRACTION = {  # the rows of `extraction.toml`: scheme, dataset and steps
    "tree-ops, as in table 2 (800 steps)": (TREE, "tree-ops-breadth-to-depth-small", 800),
    "3,200 steps": (TREE, "tree-ops-breadth-to-depth-small", 3200),
    "64 symbols, not 128": (TREE, "tree-ops-symbols-64", 800),
    "512 symbols": (TREE, "tree-ops-symbols-512", 800),
    "pointers to inner nodes only": (TREE, "tree-ops-inner", 800),
    "flip-extract only": (TREE, "tree-ops-flip-extract", 800),
    "extract only": (TREE, "tree-ops-extract", 800),
    "extract only, inner nodes": (TREE, PARTS, 800),
    "… 3,200 steps": (TREE, PARTS, 3200),
    "… 3,200 steps, 4 times the rows": (TREE, f"{PARTS}-80000", 3200),
    "… 12,800 steps": (TREE, PARTS, 12800),
    "… 12,800 steps, 4 times the rows": (TREE, f"{PARTS}-80000", 12800),
    "tree-ops, 12,800 steps, 4 times the rows": (TREE, "tree-ops-all-80000", 12800),
    "orthogonal-seq, extract only, inner nodes": ("orthogonal-seq", PARTS, 800),
    "… with 3,200 steps": ("orthogonal-seq", PARTS, 3200),
    "… with 12,800 steps, 4 times the rows": ("orthogonal-seq", f"{PARTS}-80000", 12800),
}

FOOT = (
    "Rows that extract a subtree, test split, in %. Sources are written breadth first, targets depth first. "
    "60% of the answers of extract are a single node, and 29% the whole tree if pointers are to inner nodes."
)


def structure(registry: Registry, plans: Mapping[str, Stages]) -> Finding:
    """By how much the encoding that reads the structure leads the other rows of its sweep."""
    natural = {
        f"{what}, {labels} labels" + ", 3,000 steps" * (what == "mask"): (f"trees-stdlib-{what}-{labels}-depth", TREE)
        for what in ("copy", "rotate", "mask")
        for labels in ("token", "anonymous")
    }
    blocks = {
        ("table2-medium", "token_accuracy", "The preprint’s trees, preset medium"): {
            f"{task}/breadth-to-depth": (f"{task}-breadth-to-depth-medium", TREE) for task in TASKS
        },
        ("trees", "token_accuracy", "Functions of Python’s standard library, preset small"): natural,
        ("tasks", "exact_match", "Sequences of trees, other products, and grids, preset small"): {
            **{f"{task}/depth": (f"{task}-depth-small", "orthogonal") for task in ("forest-reverse", "forest-rotate")},
            **{task: (f"{task}-small", "orthogonal") for task in ("word-grid-rotate", "quadtree-expand")},
            **{task: (f"{task}-small", "orthogonal-grid") for task in ("box-rotate", "grid-path")},
        },
    }
    made = []
    for (sweep, of, heading), columns in blocks.items():
        scores = Scores(registry.only(finished(plans[sweep]) if sweep in plans else []))
        rows = [Row(name, _lead(scores.rows(data, of), own)) for name, (data, own) in columns.items()]
        made.append(Block(f"{heading}: {NAMES[of]}", rows))
    foot = "In points. In brackets: the row that the lead is over, which has the best mean."
    return Finding(made, foot, differences=True)


def _lead(rows: Mapping[tuple[str, str], Seeds], own: str) -> dict[str, Cell]:
    """The lead of a scheme over the other row with the best mean, and over the best one that reads a sequence."""
    ours = {row: seeds for row, seeds in rows.items() if row[0] == own}
    usual = {row[1] for row in ours}  # not the earlier runs of `tree` with another size
    others = {row: fmean(seeds.values()) for row, seeds in rows.items() if row[0] != own and row[1] in usual}
    flat = {row: mean for row, mean in others.items() if row[0] in FLAT}
    leads: dict[str, Cell] = {}
    for seeds in ours.values():  # a sweep has one
        for column, means in (
            ("lead over the best other row", others),
            ("lead over the best that reads a sequence", flat),
        ):
            if means:
                best = max(means, key=means.__getitem__)
                paired = differences({column: (seeds, rows[best])})
                leads |= {key: cell._replace(note=f"({best[0]})") for key, cell in paired.items()}
    return leads


def ingredients(registry: Registry) -> Finding:
    """What each ingredient of the orthogonal schemes is worth, as the table of `worth` has it."""
    made = worth.cells(worth.scores(registry))
    rows = [
        Row(name.replace("`", ""), {c: Cell(*made[name, c]) for c in worth.COLUMNS if (name, c) in made})
        for name in (*worth.INGREDIENTS, *worth.TUNED)
    ]
    return Finding([Block("", rows, worth.COLUMNS)], "Points of token accuracy, preset small.", differences=True)


def init(registry: Registry) -> Finding:
    """What starting from RoPE is worth, as the tables of `starts` have it: differences of the cross-entropy."""
    scores, blocks = starts.scores(registry, "small"), []
    for order in starts.ORDERS:
        columns = [column for column in starts.COLUMNS["small"] if column.endswith(f"/{order}")]
        rows = []
        for name, pair in list(starts.PAIRS.items())[:5]:
            of = {c: starts.difference(c, pair, "cross_entropy", scores) for c in columns}
            rows.append(
                Row(name.replace("`", ""), {c.partition("/")[0]: Cell(*cell) for c, cell in of.items() if cell})
            )
        blocks.append(Block(f"{order}", rows, TASKS))
    foot = "Logarithm of the perplexity, preset small. Below 0, the first of the two is better."
    return Finding(blocks, foot, differences=True)


def longer(registry: Registry, plans: Mapping[str, Stages]) -> Finding:
    """Exact match beyond the training lengths, with the learning rates that validation scores chose."""
    foot = "On modular, the most frequent answer alone gets 47.9."
    return Finding(_tuned("length", registry, plans), f"{UNSEEN}, learning rates tuned. {foot}")


def deeper(registry: Registry, plans: Mapping[str, Stages]) -> Finding:
    """Exact match beyond the training depths, with the learning rates that validation scores chose."""
    return Finding(_tuned("depth", registry, plans), f"{UNSEEN}, learning rates tuned.")


def larger(registry: Registry) -> Finding:
    """Exact match beyond the training sizes of tables 1 and 2."""
    return Finding(_unseen("", registry, Options(metric="exact_match")), f"{UNSEEN}.")


def _tuned(sweep: str, registry: Registry, plans: Mapping[str, Stages]) -> list[Block]:
    """The blocks of a sweep with chosen settings. There are none if no run is finished."""
    options = Options(metric="exact_match", best_by="validation")
    try:
        return _unseen(sweep, Tuned(registry.only(finished(plans[sweep]))).runs(options), options)
    except (ApeError, KeyError):
        return []


def _unseen(sweep: str, registry: Registry, options: Options) -> list[Block]:
    """The blocks of `length`: one for each model; of `depth`: one; of tables 1 and 2: one for each order."""
    lines = Generalisation().read(registry, options).filter(metric="exact_match")
    means, by_heading = over_unseen(lines), dict[str, dict[str, Row]]()
    limits = {(line["task"], line["order"]): line["largest"] for line in lines.iter_rows(named=True)}
    maximum = max(len(of) for of in means["by_seed"])
    for line in means.iter_rows(named=True):
        if len(line["by_seed"]) < maximum:  # only its learning rates were tried
            continue
        task, order = line["task"], line["order"]
        settings = dict(part.split("=") for part in line["variant"].split(", ") if part)
        of = settings.get("model", "encoder-decoder") if sweep == "length" else order if not sweep else ""
        kind = f"{'depth' if order else 'length'} above {limits[task, order]}" + f", {of}" * bool(of)
        rows = by_heading.setdefault(kind, {})
        name = line["scheme"] + ", randomised" * ("positions" in settings)
        row = rows.setdefault(name, Row(name, {}, line["scheme"]))
        column = f"{task}/{order}" if sweep and order else task
        rows[name] = row._replace(cells={**row.cells, column: Cell.of(100 * of["value"] for of in line["by_seed"])})
    return [Block(heading, [*rows.values()]) for heading, rows in by_heading.items()]


def extraction(registry: Registry) -> Finding:
    """Scores on the rows of `tree-ops` that extract a subtree, with parts of the task and more steps."""
    by_settings: dict[tuple[str, str, int | None], dict[str, Seeds]] = {}
    for run, about in registry.readable():
        key = about.config.scheme, about.dataset.name, about.config.steps
        usual = about.variant.keys() <= {"steps"} and about.status == "finished"
        if usual and key in EXTRACTION.values():
            own = run.evaluation(evaluation_name(about.dataset.fingerprint, "test", "teacher")) or {"by_op": []}
            by_op = {line["op"]: line for line in own["by_op"]}
            if line := by_op.get("extract", by_op.get("flip-extract")):
                for metric, name in NAMES.items():
                    by_settings.setdefault(key, {}).setdefault(name, {})[about.config.seed] = 100 * line[metric]
    rows = [Row(label, cells(by_settings.get(key, {})), key[0]) for label, key in EXTRACTION.items()]
    if len(by_settings) == 1:  # the run of table 2, with which the others are compared
        rows = []
    return Finding([Block("", rows)], FOOT)
