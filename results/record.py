"""Make the tables, plots and figures of record from the committed runs, and fill the pages of results.

`make record` runs this file. It trains nothing: every number comes from the runs in `results/record`. Without new runs
it changes no file. A sweep with finished runs has a page in `docs/results`. `results/README.md` lists all sweeps, and
`docs/results.md` is its copy for the site.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import polars as pl

from ape_cli.core.errors import DataError
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.sweep import combinations, specification, stages
from ape_cli.sweep.durations import PastRuns
from results import claims, figures, first_picture, starts, verdicts, worth
from results.figures.scores import SCHEMES, TASKS, Scores

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
RUNS = RESULTS / "record"  # the finished runs of each sweep, in one file each
AGAIN = {"generalise": "results/generalise/runs.parquet"}  # a sweep that trains runs of others again, apart from them
# folders of schemes and tasks that only new processes find, by the sweep that needs them
OWN = {"causes": "causes", "extraction": "ingredients", "ingredients": "ingredients", "init": "init"}
README = RESULTS / "README.md"
SITE = ROOT / "docs" / "results.md"
PAGES = SITE.with_suffix("")  # the folder of the sweeps' pages and plots
FINDINGS = PAGES / "plots" / "findings"  # the figures of results/README.md
ABOUT = {  # the sweeps in the order of the page
    "table2-neurips": "the published paper, trees (GPU)",
    "table1-neurips": "the published paper, words (GPU)",
    "table2-paper": "the preprint's table 2 (GPU)",
    "table1-paper": "the preprint's table 1 (GPU)",
    "neurips-medium": "rows of the published paper, a quarter as wide",
    "table1-medium": "the preprint's table 1, a quarter as wide",
    "table2-medium": "the preprint's table 2, a quarter as wide",
    "table1": "the preprint's table 1 at preset `small`, with `none` as a control",
    "table2": "the preprint's table 2 at preset `small`, with `breadth-to-depth`",
    "rotations": "three forms of `tree-rotate`",
    "first-release": "settings of the authors' first release, one by one",
    "causes": "suspected causes of the preprint's numbers",
    "ablation-locality": "the locality bias on and off",
    "ingredients": "what each ingredient of the orthogonal schemes is worth",
    "init": "does starting from RoPE help?",
    "extraction": "parts of `tree-ops`: why is extraction not learned?",
    "tasks": "tasks of other papers and composite structures",
    "length": "words of 1 to 40 symbols, evaluated at up to 200, tuned",
    "depth": "trees of depth 1 to 5, evaluated at up to 9, tuned",
    "generalise": "tables 1 and 2 at larger sizes",
    "trees": "functions of Python's standard library: copied, mirrored, with masked labels",
    "digits": "the preprint's table 3, on scikit-learn's digits",
    "pixels": "the control: each pixel a token, pixels shuffled",
    "table3": "the preprint's table 3, on CIFAR-10 (GPU)",
}
SIZES = ("table1", "table2", "ablation-locality", *AGAIN)
EPOCHS = ("digits", "pixels")
# sweeps without published numbers: with intervals, and also with exact match
OURS = ("ingredients", "init", "extraction", "tasks", "trees")
PUBLISHED = ("table1-medium", "table2-medium")  # also compared with the published paper, by perplexity
TUNED = ("length", "depth")  # sweeps whose settings are chosen by validation scores
BEYOND = (*AGAIN, *TUNED)  # shown beyond the training sizes


def source(sweep: str) -> str:
    """Where the runs of a sweep are."""
    return AGAIN.get(sweep, "results/record")


@cache
def registered(where: str) -> tuple[Registry, PastRuns]:
    """The runs of `source`, which are read once for all of their sweeps."""
    registry = open_registry(ROOT / where)
    return registry, PastRuns(registry)


@cache
def planned(sweep: str) -> stages.Stages:
    """The trials of a sweep. Raises `DataError` if its dataset is not available."""
    grids = specification.read(RESULTS / f"{sweep}.toml")
    groups = combinations.groups(grids, "small", lambda name: ROOT / name)
    registry, past = registered(source(sweep))
    return stages.plan(groups, registry, ROOT / "datasets", past)


def standing(sweep: str) -> tuple[int, int]:
    """The number of finished runs of a sweep, and of all its runs; 0 and 0 if its dataset is not available."""
    if sweep in OWN:
        plan = run(["sweep", f"results/{sweep}.toml", "--results", source(sweep), "--dry-run", "--json"])
        trials = json.loads(plan)["trials"]
        return sum(trial["state"] == "finished" for trial in trials), len(trials)
    try:
        items = planned(sweep).trials
    except DataError:
        return 0, 0
    return sum(item.state == "finished" for item in items), len(items)


def begun() -> dict[str, tuple[int, int]]:
    """The sweeps that have finished runs, each with the numbers of `standing`."""
    return {sweep: count for sweep in ABOUT if (count := standing(sweep))[0]}


def selection(sweep: str) -> list[str]:
    """The arguments of `ape report` that select the runs of a sweep."""
    tuned = ["--best-by", "validation"] if sweep in TUNED else []
    return ["--results", source(sweep), "--sweep", f"results/{sweep}.toml", *tuned]


def views(sweeps: list[str]) -> dict[str, list[str]]:
    """The arguments of the `ape report` that prints a file, for each file in results/tables."""
    found: dict[str, list[str]] = {}
    for sweep in sweeps:
        of_sweep = selection(sweep)
        if sweep in SIZES:
            found[f"{sweep}-by-size.md"] = [*of_sweep, "--by", "size", "--format", "markdown"]
        if sweep in BEYOND:
            found[f"{sweep}.md"] = [*of_sweep, "--view", "generalisation", "--interval", "--format", "markdown"]
            continue
        for kind, name in (("md", "markdown"), ("csv", "csv")):
            version = "neurips" if "neurips" in sweep else "paper"
            beside = ["--against", version] if sweep not in OURS else ["--interval"] * (kind == "md")  # csv has it
            found[f"{sweep}.{kind}"] = [*of_sweep, *beside, "--format", name]
        if sweep in PUBLISHED:
            found[f"{sweep}-perplexity.md"] = [*of_sweep, "--against", "neurips", "--format", "markdown"]
        if sweep in OURS:
            exact = ["--metric", "exact_match", "--interval", "--format", "markdown"]
            found[f"{sweep}-exact-match.md"] = [*of_sweep, *exact]
        if sweep in EPOCHS:
            found[f"{sweep}-by-epoch.md"] = [*of_sweep, "--by", "epoch", "--format", "markdown"]
    if "table2" in sweeps:
        of_sweep = [*selection("table2"), "--format", "markdown"]
        found["table2-exact-match.md"] = [*of_sweep, "--metric", "exact_match"]
        found["tree-ops-by-operator.md"] = [*of_sweep, "--by", "op"]
        found["tree-ops-by-operator-exact-match.md"] = [*of_sweep, "--by", "op", "--metric", "exact_match"]
    return found


def plotted(name: str) -> list[str]:
    """The arguments of `ape report` that draw the plots of a folder."""
    return ["--plots", f"docs/results/plots/{name}", "--format", "csv"]


def printed(words: list[str]) -> str:
    """The output of `ape report` about the runs of record. Ends the program if the command fails."""
    return run(["report", *words])


def environment() -> dict[str, str]:
    """The environment of a process that finds the schemes and tasks of `OWN`."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(RESULTS / name) for name in sorted(set(OWN.values())))}


def run(words: list[str]) -> str:
    """The output of an `ape` command. Ends the program if the command fails."""
    command = [sys.executable, "-m", "ape_cli", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def linearisation() -> str:
    """The table of what a flat scheme gains if source and target are written in the same order.

    A gain is the token accuracy in `depth` minus that in `breadth-to-depth`, in points, at preset small. The table has
    the mean and the standard deviation over the seeds that both have. These seeds share their trees, row by row.
    """
    scores = Scores(open_registry(RUNS))
    gains: dict[tuple[str, str], list[float]] = {}
    for scheme, task in itertools.product(SCHEMES, TASKS):
        same, mixed = (scores.seeds(f"{task}-{order}-small", scheme) for order in ("depth", "breadth-to-depth"))
        gains[scheme, task] = [same[seed] - mixed[seed] for seed in sorted(same.keys() & mixed.keys())]
    most = max(map(len, gains.values()))
    lines = [f"| scheme | {' | '.join(TASKS)} |", f"|---|{'---:|' * len(TASKS)}"]
    lines += [f"| {scheme} | {' | '.join(_gain(gains[scheme, task], most) for task in TASKS)} |" for scheme in SCHEMES]
    return "\n".join(lines) + "\n"


def computed() -> dict[str, str]:
    """The tables that `ape report` does not print, by their files."""
    return {
        "length-claims.md": claims.table(planned("length")),
        "ingredients-worth.md": worth.table(open_registry(RUNS)),
        "linearisation.md": linearisation(),
        **starts.parts(open_registry(RUNS)),
        "tasks-floors.md": floors("tasks", "exact_match"),
        "trees-floors.md": floors("trees", "token_accuracy"),
        **verdicts.parts(RESULTS),
    }


def _gain(of: list[float], most: int) -> str:
    """The cell of the gains with each seed, with the number of seeds if that is not `most`; empty without seeds."""
    if not of:
        return ""
    spread = f" ±{statistics.stdev(of):.1f}" if len(of) > 1 else ""
    return f"{statistics.fmean(of):+.2f}{spread}" + f" ×{len(of)}" * (len(of) != most)


def floors(sweep: str, metric: str) -> str:
    """The table of what counting reaches on the datasets of a sweep, in percent, from `floors.csv`."""
    lines = pl.read_csv(RESULTS / "floors.csv").filter(sweep=sweep)
    baselines = lines["baseline"].unique(maintain_order=True).to_list()
    told = {(line["column"], line["baseline"]): line[metric] for line in lines.iter_rows(named=True)}
    table = [f"| task | {' | '.join(baselines)} |", f"|---|{'---:|' * len(baselines)}"]
    for column in sorted(set(lines["column"])):
        cells = [f"{100 * told[column, one]:.2f}" if (column, one) in told else "—" for one in baselines]
        table.append(f"| {column} | {' | '.join(cells)} |")
    return "\n".join(table) + "\n"


def sweeps(counts: dict[str, tuple[int, int]]) -> str:
    """The table of all sweeps in results/README.md, with their numbers of finished runs."""
    lines = ["| sweep | what it is | runs finished |", "|---|---|---:|"]
    for sweep, about in ABOUT.items():
        done, of = counts.get(sweep) or standing(sweep)
        name = f"[`{sweep}`](../docs/results/{sweep}.md)" if done else f"`{sweep}`"
        lines.append(f"| {name} | {about} | {f'{done} of {of}' if of else 'none yet'} |")
    return "\n".join(lines) + "\n"


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with each part between its marks, `<!-- NAME -->` and `<!-- end -->`.

    Ends the program if the page asks for a part that does not exist.
    """

    def fill(mark: re.Match[str]) -> str:
        name = mark["name"]
        if name not in parts:
            raise SystemExit(f"a page of results asks for {name}, which is not made")
        return f"<!-- {name} -->\n{parts[name].strip()}\n<!-- end -->"

    return re.sub(r"<!-- (?P<name>\S+) -->\n.*?<!-- end -->", fill, page, flags=re.S)


def pages(made: dict[str, str], counts: dict[str, tuple[int, int]]) -> dict[Path, str]:
    """The pages of results with their generated parts: the tables, and the list of sweeps."""
    parts = made | {"sweeps": sweeps(counts)}
    found = {path: filled(path.read_text(encoding="utf-8"), parts) for path in [README, *sorted(PAGES.glob("*.md"))]}
    return found | {SITE: found[README].replace("](../docs/", "](")}


def main() -> None:
    """Write all tables, plots and pages."""
    counts = begun()
    wanted = views(list(counts))
    with ThreadPoolExecutor(2) as pool:
        made = dict(zip(wanted, pool.map(printed, wanted.values()), strict=True))
        # scores and learning curves of runs that were trained again are those of the runs that they repeat
        plots = [[*selection(s), *(["--by", "size"] if s in AGAIN else []), *plotted(s)] for s in counts]
        plots.append([*selection("table1"), *plotted("table1-error"), "--axis", "error"])
        list(pool.map(printed, plots))
    made |= computed()
    first = first_picture.drawn(printed([*selection("table2"), *first_picture.WORDS]))
    drawn = figures.drawn(open_registry(RUNS), planned)
    for folder, files in ((RESULTS / "tables", made), (FINDINGS, drawn), (first_picture.PICTURES, first)):
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    for path, text in pages(made, counts).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
