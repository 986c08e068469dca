"""Make the tables, plots and figures of record from the committed runs, and fill the pages of results.

`make record` runs this file. It trains nothing: every number comes from the runs in `results/record`. Without new runs
it changes no file. A sweep with finished runs has a page in `docs/results`. `results/README.md` lists all sweeps, and
`docs/results.md` is its copy for the site.
"""

from __future__ import annotations

import argparse
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from results import (
    authors_trees,
    bounds,
    claims,
    controls,
    features,
    figures,
    first_picture,
    maps,
    queries,
    starts,
    verdicts,
    worth,
)
from results.figures.forest import for_both_pages
from results.numbers import SCHEMES, TREE_TASKS
from results.plans import ABOUT, AGAIN, RESULTS, ROOT, begun, planned, registered, run, source, standing
from results.queries.answers import floor_table
from results.queries.costs import cost_tables
from results.queries.tables import same_order

README = RESULTS / "README.md"
SITE = ROOT / "docs" / "results.md"
PAGES = SITE.with_suffix("")  # the folder of the sweeps' pages and plots
TEMPLATES = RESULTS / "pages"  # the texts of the pages, with queries in place of numbers
ELSEWHERE = {"README.md": README, "paper.md": ROOT / "docs" / "explanation" / "paper.md"}  # not in PAGES
HOME = ROOT / "docs" / "index.md"  # of the site; its parts link as those of the README
IN_PLACE = (
    ROOT / "README.md",
    ROOT / "docs" / "tutorial.md",
    HOME,
    ROOT / "docs" / "explanation" / "cost.md",
    ROOT / "docs" / "explanation" / "tasks.md",
)
DEMO = ("demo", "demo-interval")  # tables of the README and the tutorial, as the terminal shows them
FINDINGS = PAGES / "plots" / "findings"  # the figures of results/README.md
SIZES = ("table1", "table2", "ablation-locality", *AGAIN)
EPOCHS = ("digits", "pixels")
SUITES = ("chomsky",)  # also with the means over unseen sizes, of tokens and of whole answers
# sweeps without published numbers: with intervals, and also with exact match
OURS = ("ingredients", "controls", "controls-medium", "init", "features", "extraction", "tasks", "trees", "indirect")
OURS += SUITES
EXACT = ("indirect", *SUITES)  # sweeps whose plots of scores show exact match
NEURIPS = (
    "table2-neurips",
    "table1-neurips",
    "neurips-medium",
    "authors-trees",
    "bounds",
)  # compared with the published paper
PUBLISHED = ("table1-medium", "table2-medium")  # compared with it too, by perplexity
WIDE = ("table2.md", "table2-exact-match.md", "table2-medium.md", "table2-medium-perplexity.md")  # twelve columns
TUNED = ("length", "maps", "depth")  # sweeps whose settings are chosen by validation scores
BEYOND = (*AGAIN, *TUNED)  # shown beyond the training sizes


def selection(sweep: str) -> list[str]:
    """The arguments of `ape report` that select the runs of a sweep."""
    tuned = ["--best-by", "validation"] if sweep in TUNED else []
    return ["--results", source(sweep), "--sweep", f"results/{sweep}.toml", *tuned]


def views(sweeps: list[str]) -> dict[str, list[str]]:
    """The arguments of the `ape report` that prints a file, for each file in results/tables."""
    arguments: dict[str, list[str]] = {}
    for sweep in sweeps:
        of_sweep = selection(sweep)
        if sweep in SIZES:
            arguments[f"{sweep}-by-size.md"] = [*of_sweep, "--by", "size", "--format", "markdown"]
        if sweep in BEYOND:
            arguments[f"{sweep}.md"] = [*of_sweep, "--view", "generalisation", "--interval", "--format", "markdown"]
            continue
        for suffix, name in (("md", "markdown"), ("csv", "csv")):
            version = "neurips" if sweep in NEURIPS else "paper"
            beside = ["--against", version] if sweep not in OURS else ["--interval"] * (suffix == "md")  # csv has it
            arguments[f"{sweep}.{suffix}"] = [*of_sweep, *beside, "--format", name]
        if sweep in PUBLISHED:
            arguments[f"{sweep}-perplexity.md"] = [*of_sweep, "--against", "neurips", "--format", "markdown"]
        if sweep in OURS:
            exact = ["--metric", "exact_match", "--interval", "--format", "markdown"]
            arguments[f"{sweep}-exact-match.md"] = [*of_sweep, *exact]
        if sweep in SUITES:
            beyond = [*of_sweep, "--view", "unseen", "--interval", "--format", "markdown"]
            arguments[f"{sweep}-unseen.md"] = beyond
            arguments[f"{sweep}-unseen-exact-match.md"] = [*beyond, "--metric", "exact_match"]
        if sweep in EPOCHS:
            arguments[f"{sweep}-by-epoch.md"] = [*of_sweep, "--by", "epoch", "--format", "markdown"]
    if "table2" in sweeps:
        for name in DEMO:
            interval = ["--interval"] * name.endswith("interval")
            of_demo = ["--results", "results/demo/runs.parquet", "--sweep", f"results/pages/{name}.toml"]
            arguments[f"{name}.txt"] = [*of_demo, *interval]
        of_sweep = [*selection("table2"), "--format", "markdown"]
        arguments["table2-exact-match.md"] = [*of_sweep, "--metric", "exact_match"]
        arguments["tree-ops-by-operator.md"] = [*of_sweep, "--by", "op"]
        arguments["tree-ops-by-operator-exact-match.md"] = [*of_sweep, "--by", "op", "--metric", "exact_match"]
    return arguments


def plotted(name: str) -> list[str]:
    """The arguments of `ape report` that draw the plots of a folder."""
    return ["--plots", f"docs/results/plots/{name}", "--format", "csv"]


def printed(words: list[str]) -> str:
    """The output of `ape report` about the runs of record. Ends the program if the command fails."""
    return run(["report", *words])


def linearisation() -> str:
    """The table of what a scheme gains if source and target are written in the same order, with deviations."""
    gains = {(scheme, task): same_order(task, scheme) for scheme in SCHEMES for task in TREE_TASKS}
    maximum = max(map(len, gains.values()))
    lines = [f"| scheme | {' | '.join(TREE_TASKS)} |", f"|---|{'---:|' * len(TREE_TASKS)}"]
    for scheme in SCHEMES:
        row = [gains[scheme, task] for task in TREE_TASKS]
        cells = [f"{of:+.2f} ±{of.std:.1f}" + f" ×{len(of)}" * (len(of) != maximum) for of in row]
        lines.append(f"| {scheme} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def computed() -> dict[str, str]:
    """The tables that `ape report` does not print, by their files."""
    registry = registered("ingredients")
    return {
        "authors-trees-published.md": authors_trees.table(),
        "bounds-published.md": bounds.table(),
        "length-claims.md": claims.table(planned("length")),
        "features-answers.md": features.table(registry),
        "ingredients-worth.md": worth.table(registry),
        "linearisation.md": linearisation(),
        **controls.parts(),
        **maps.parts(),
        **starts.parts(registry),
        "tasks-floors.md": floors("tasks", "exact_match"),
        "trees-floors.md": floors("trees", "token_accuracy"),
        **verdicts.parts(),
    }


def floors(sweep: str, metric: str) -> str:
    """The table of what counting reaches on the datasets of a sweep, in percent, from `floors.csv`."""
    lines = pl.read_csv(RESULTS / "floors.csv").filter(sweep=sweep)
    baselines = lines["baseline"].unique(maintain_order=True).to_list()
    told = {(line["column"], line["baseline"]): line[metric] for line in lines.iter_rows(named=True)}
    table = [f"| task | {' | '.join(baselines)} |", f"|---|{'---:|' * len(baselines)}"]
    for column in sorted(set(lines["column"])):
        cells = [f"{100 * told[column, baseline]:.2f}" if (column, baseline) in told else "—" for baseline in baselines]
        table.append(f"| {column} | {' | '.join(cells)} |")
    return "\n".join(table) + "\n"


def by_task(table: str) -> str:
    """A table of tree tasks as one table for each task: a Markdown table with twelve columns does not fit on a page."""
    heading, *lines = table.strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    names, rule, *scores = rows
    tables = [heading]
    for task in dict.fromkeys(name.partition("/")[0] for name in names[1:]):
        places = [n for n, name in enumerate(names) if name.partition("/")[0] == task]
        kept = [
            [task, *(names[n].partition("/")[2] for n in places)],
            [rule[0], *(rule[n] for n in places)],
            *([row[0], *(row[n] for n in places)] for row in scores if {row[n] for n in places} != {"—"}),
        ]
        tables.append("\n".join(f"| {' | '.join(row)} |" for row in kept))
    rest = [line for line in lines if line and not line.startswith("|")]
    return "\n\n".join([*tables, *rest]) + "\n"


def sweeps(counts: dict[str, tuple[int, int]]) -> str:
    """The table of all sweeps in results/README.md, with their numbers of finished runs."""
    lines = ["| sweep | what it is | runs finished |", "|---|---|---:|"]
    for sweep, about in ABOUT.items():
        done, of = counts.get(sweep) or standing(sweep)
        name = f"[`{sweep}`](../docs/results/{sweep}.md)" if done else f"`{sweep}`"
        lines.append(f"| {name} | {about} | {f'{done} of {of}' if of else 'none yet'} |")
    return "\n".join(lines) + "\n"


def fenced(printed: str) -> str:
    """What a terminal shows, as a block of a page."""
    return "\n".join(["```text", *(line.rstrip() for line in printed.strip().splitlines()), "```"])


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
    """The pages with their generated parts.

    A page of results follows from its template, as soon as its sweep has a finished run. The pages of `IN_PLACE` keep
    their text, and only their parts change.
    """
    snippets = {path.stem: queries.render(path.read_text("utf-8")) for path in (TEMPLATES / "parts").iterdir()}
    parts = made | snippets | cost_tables() | {"sweeps": sweeps(counts), "floors": floor_table()}
    parts |= {name: by_task(made[name]) for name in WIDE}
    parts |= {name: fenced(made[f"{name}.txt"]) for name in DEMO}
    texts = {path: filled(path.read_text(encoding="utf-8"), parts) for path in IN_PLACE}
    texts[HOME] = texts[HOME].replace("](docs/", "](")
    for path in sorted(TEMPLATES.glob("*.md")):
        if path.stem in ABOUT.keys() - counts.keys():
            continue
        note = f"\n<!-- `make record` writes this page from {path.relative_to(ROOT).as_posix()}. -->\n"
        text = filled(queries.render(path.read_text(encoding="utf-8")), parts) + note
        texts[ELSEWHERE.get(path.name, PAGES / path.name)] = text
    return texts | {SITE: texts[README].replace("](../docs/", "](")}


def main() -> None:
    """Write all tables, plots and pages."""
    parser = argparse.ArgumentParser(prog="python -m results.record", description=__doc__)
    parser.add_argument("sweep", nargs="*", help="with new runs (default: all); tables and plots of others are kept")
    asked, counts = parser.parse_args().sweep, begun()
    if unknown := sorted(set(asked) - counts.keys()):
        parser.error(f"no finished run of {', '.join(unknown)} in results/record; pack it first: `ape runs --pack`")
    asked = asked or list(counts)
    wanted, kept = views(asked), views([sweep for sweep in counts if sweep not in asked])
    made = {name: (RESULTS / "tables" / name).read_text(encoding="utf-8") for name in kept}
    with ThreadPoolExecutor(2) as pool:
        made |= zip(wanted, pool.map(printed, wanted.values()), strict=True)
        # scores and learning curves of runs that were trained again are those of the runs that they repeat
        shown = {s: ["--by", "size"] if s in AGAIN else ["--against", "neurips"] * (s in NEURIPS) for s in asked}
        plots = [[*selection(s), *words, *plotted(s)] for s, words in shown.items()]
        if "table1" in asked:
            plots.append([*selection("table1"), *plotted("table1-error"), "--axis", "error"])
        list(pool.map(printed, plots))
        exact = ["--metric", "exact_match"]  # which no learning curves have: those above are kept
        list(pool.map(printed, [[*selection(s), *exact, *plotted(s)] for s in EXACT if s in asked]))
    for plot in PAGES.glob("plots/*/*.svg"):
        if "prefers-color-scheme" not in (svg := plot.read_text(encoding="utf-8")):
            plot.write_text(for_both_pages(svg), encoding="utf-8")
    made |= computed()
    first = first_picture.drawn(printed([*selection("table2"), *first_picture.WORDS]))
    drawn = figures.drawn(registered("ingredients"), planned)
    for folder, files in ((RESULTS / "tables", made), (FINDINGS, drawn), (first_picture.PICTURES, first)):
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    for path, text in pages(made, counts).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
