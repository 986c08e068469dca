"""The dataset card (README.md).

People read it, and `datasets.load_dataset` reads the splits from its front matter.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import resources

from ape_cli import tasks
from ape_cli.core.escaping import code, markdown, one_line
from ape_cli.core.vocabulary import shown
from ape_cli.data.manifest import Manifest
from ape_cli.structure import Cyclic, Product, Seq, Structure, Tree
from ape_cli.tasks import BaseTask


def card(manifest: Manifest, task: BaseTask) -> str:
    """The dataset card as Markdown. The text is in `dataset_card.md.jinja`."""
    from jinja2 import Environment, StrictUndefined  # slow to import, and rarely needed

    plan, moments = manifest.plan, manifest.moments
    names = ", ".join(f"{i} {markdown(shown(name))}" for i, name in enumerate(manifest.vocabulary[:24]))
    means, deviations = (moments.mean, moments.std) if moments else ([], [])
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"markdown": markdown, "code": code}
    template = resources.files(__package__).joinpath("dataset_card.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        manifest=manifest,
        plan=plan,
        task=task,
        parameters={"binarise": False, "sizes": None, "shuffled": False} | plan.parameters,
        title=_title(manifest),
        command=one_line(gen_command(task, plan.rows, plan.seed, plan.shard_rows)),
        needs_path=task.command_options.get("source") == "PATH",
        positions=_positions(plan.structure),
        overlap=manifest.stored_overlap.words(plan) if manifest.stored_overlap else "",
        names=names + (", …" if len(manifest.vocabulary) > 24 else ""),
        mean=", ".join(f"{x:.4f}" for x in means),
        std=", ".join(f"{x:.4f}" for x in deviations),
    )


def _title(manifest: Manifest) -> str:
    """The name of the task, with its source, its form, and its orders."""
    plan = manifest.plan
    if plan.image is not None:
        return f"images: {plan.parameters['source']}{', shuffled' if plan.parameters.get('shuffled') else ''}"
    form = "" if manifest.sources is None else f": {tasks.load(plan.task).form(plan.parameters)}"
    if plan.source_order:
        return f"{plan.task}{form}, {plan.source_order}-first sources, {plan.order}-first targets"
    return f"{plan.task}{form}{f', {plan.order}-first order' if plan.order else ''}"


def gen_command(task: BaseTask, rows: Mapping[str, int], seed: int, shard_rows: int | None = None) -> str:
    """The `ape gen` command that generates a dataset of a task again, with these numbers of rows of each split."""
    values = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in task.command_options.items()}
    declared = tasks.options_of(type(task))
    off = [f"--set {k}=false" for k, v in values.items() if v is False and declared[k].default]
    flags = {f"--{k.replace('_', '-')}": v for k, v in values.items() if v is not None and v is not False}
    options = [k if v is True else f"{k} {shlex.quote(str(v))}" for k, v in flags.items()] + off
    orders = {"--order": task.order, "--source-order": task.source_order}
    order = "".join(f" {option} {value}" for option, value in orders.items() if value)
    of_each = len(task.options.get("sizes") or [0])
    counts = " ".join(
        f"{option} {rows[split] // of_each}"
        for option, split in (("--n", "train"), ("--n-validation", "validation"), ("--n-test", "test"))
    )
    shards = [] if shard_rows is None else [f"--shard-rows {shard_rows}"]
    return " ".join([f"ape gen {task.name}{order} {counts} --seed {seed}", *shards, *options])


def _positions(structure: Structure) -> str:
    """Words that say what the stored positions of a structure are."""
    if isinstance(structure, Product):
        if set(structure.simple) == {Seq()}:
            return "row and column, from 0" if structure.width == 2 else f"{structure.width} coordinates, each from 0"
        return "; ".join(f"coordinate {i}: {_positions(s)}" for i, s in enumerate(structure.simple))
    if isinstance(structure, Tree):
        k = structure.branching
        children = "2i and 2i+1" if k == 2 else f"{k}(i-1)+2 to {k}(i-1)+{k + 1}"
        return f"heap indices (root 1, children of i: {children})"
    if isinstance(structure, Cyclic):
        return f"places 0 to {structure.order - 1} of a ring"
    return "steps from 0"
