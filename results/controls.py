"""Free group or distance? `orthogonal-tree` minus each control, paired by seed (`controls*.toml`).

A pair is one seed that both have, with the same data in the same order. A gap is the mean of the differences in points
of token accuracy or exact match on the test split, with its 95% interval by Student's paired t.

The rule was written before the runs were looked at. By one metric on one task, a control is

- *enough* if the upper end of the interval is at most `MARGIN`,
- else *behind* if the lower end is above 0,
- else *open*.

On a task it is behind if it is behind by one of the metrics, else enough if it is enough by both, else open. The answer
is the first of these that holds:

1. *Distance suffices* if `tree-distance` or `tree-path` is enough on all tasks.
2. *The group is not needed* if another control is enough on all tasks.
3. *The group matters* on the tasks on which all controls are behind, if there are any.
4. Otherwise it stays open.

There is no answer before all seeds of all rows are finished. The best control is not chosen by its test scores: to
matter, the group has to be ahead of each. The same rule is applied at preset `medium` to the two controls of `best`.
"""

from __future__ import annotations

from collections.abc import Mapping

from results.numbers import TREE_TASKS, Preset, Scores, medium, small

GROUP, MARGIN = "orthogonal-tree", 1.0
SEEDS = {small: 6, medium: 3}
DISTANCES = ("tree-distance", "tree-path")
SPECTRA = ("wire", "wire features=eigenvectors")
CONTROLS = (*DISTANCES, "tree-learned", *SPECTRA, "tree", "orthogonal-tree-one-generator")
METRICS = ("token_accuracy", "exact_match")


def scores(control: str, task: str, metric: str, preset: Preset = small) -> Scores:
    """The scores of a row on a task, by seed; empty if it has no runs."""
    scheme, _, settings = control.partition(" ")
    try:
        return preset(f"{task}/breadth-to-depth", scheme, settings, metric)
    except KeyError:
        return Scores()


def gap(control: str, task: str, metric: str, preset: Preset = small) -> Scores:
    """The scores of `orthogonal-tree` minus those of a control, by seed; empty if one of them has no runs."""
    return scores(GROUP, task, metric, preset) - scores(control, task, metric, preset)


def gaps(*controls: str, metric: str = "token_accuracy") -> list[float]:
    """The mean gaps of some controls on each task, at `small`."""
    return [gap(control, task, metric).mean for control in controls for task in TREE_TASKS]


def best() -> list[str]:
    """The two controls with the best exact match at `small`, on average over tasks; token accuracy breaks ties.

    Empty before all seeds are finished.
    """
    means: dict[str, list[float]] = {}
    for control in CONTROLS:
        by_metric = [[scores(control, task, metric) for task in TREE_TASKS] for metric in reversed(METRICS)]
        if any(len(of) < SEEDS[small] for row in by_metric for of in row):
            return []
        means[control] = [sum(of.mean for of in row) for row in by_metric]
    return sorted(CONTROLS, key=lambda control: means[control], reverse=True)[:2]


def standing(of: Scores, seeds: int = SEEDS[small]) -> str:
    """What the rule says of a control by one metric on one task: enough, behind or open; empty without all seeds."""
    if len(of) < seeds:
        return ""
    if of.mean + of.half <= MARGIN:
        return "enough"
    return "behind" if of.mean - of.half > 0 else "open"


def on_task(standings: list[str]) -> str:
    """What the rule says of a control on a task, from what it says by each metric."""
    if "" in standings:
        return ""
    return next((of for of in ("behind", "open") if of in standings), "enough")


def verdict(standings: Mapping[tuple[str, str], str]) -> str:
    """The answer, from the standing of each control on each task."""
    if "" in standings.values():
        done = sum(map(bool, standings.values()))
        return f"**Not decided yet.** {done} of {len(standings)} comparisons have all their seeds."
    controls = list(dict.fromkeys(control for control, _ in standings))
    enough = [c for c in controls if all(standings[c, task] == "enough" for task in TREE_TASKS)]
    ahead = [task for task in TREE_TASKS if all(standings[c, task] == "behind" for c in controls)]
    names = ", ".join(f"`{control}`" for control in enough)
    every = "All" if len(controls) > 2 else "Both"
    if set(enough) & set(DISTANCES):
        return f"**Distance suffices.** Enough on all four tasks: {names}."
    if enough:
        return f"**The group is not needed, but distance does not suffice.** Enough on all four tasks: {names}."
    if ahead:
        where = "all four tasks" if ahead == [*TREE_TASKS] else ", ".join(f"`{task}`" for task in ahead)
        return f"**The group matters.** {every} controls are behind on {where}."
    return "**Open.** No control is enough on all four tasks, and on none of them all are behind."


def answer(preset: Preset = small) -> str:
    """The answer of the committed runs. At `medium`, it is that of the two best controls."""
    if not (controls := CONTROLS if preset is small else best()):
        return "**Not decided yet.** The two controls are not chosen yet."
    seeds, pairs = SEEDS[preset], [(control, task) for control in controls for task in TREE_TASKS]
    return verdict({(c, t): on_task([standing(gap(c, t, m, preset), seeds) for m in METRICS]) for c, t in pairs})


def table(metric: str, preset: Preset = small) -> str:
    """The gaps of all controls with what the rule says of them. A gap without all seeds is left out."""
    lines = [f"| `{GROUP}` minus | {' | '.join(TREE_TASKS)} |", f"|---|{'---:|' * len(TREE_TASKS)}"]
    for control in CONTROLS if preset is small else best():
        cells = [cell(gap(control, task, metric, preset), SEEDS[preset]) for task in TREE_TASKS]
        lines.append(f"| `{control}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(of: Scores, seeds: int = SEEDS[small]) -> str:
    """A gap with its interval, and what the rule says of it."""
    if not (said := standing(of, seeds)):
        return "—"
    ends = (max(of.mean - of.half, -100), min(of.mean + of.half, 100))  # of a difference of percentages
    mean, low, high = (round(x, 2) + 0.0 for x in (of.mean, *ends))
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f}), {said}"


def parts() -> dict[str, str]:
    """The tables of gaps, by the names of their files."""
    names = {"controls-gaps": small, "controls-medium-gaps": medium}
    return {f"{n}-{m.replace('_', '-')}.md": table(m, preset) for n, preset in names.items() for m in METRICS}
