"""The command line: parse, call one stage, print. torch is imported inside commands alone.

Results go to stdout, progress and notes to stderr. Exit 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import functools
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import ape_cli
from ape_cli import catalogue, display
from ape_cli.display import answer, note, out
from ape_cli.errors import ApeError, UsageError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Positional encodings, compared: generate structured data, train one shared transformer "
    "with any scheme, evaluate it, print the paper's tables.",
)

Results = Annotated[Path, typer.Option("--results", help="Where runs are registered.")]
Datasets = Annotated[Path, typer.Option("--datasets", help="Where datasets are.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads; default all cores.")]
RESULTS, DATASETS = Path("results"), Path("datasets")


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Print a user's error without a traceback, and end with the right status. SIGTERM is a Ctrl-C."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        with suppress(ValueError):  # signals are the main thread's alone
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            function(*args, **kwargs)
        except ApeError as error:
            note(f"error: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            note("interrupted: the same command goes on from what is done")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise typer.Exit(1) from None
        except OSError as error:
            note(f"error: {error}")
            raise typer.Exit(1) from None

    return run


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ape {ape_cli.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="And exit.")] = False,
) -> None:
    pass


# gen ---------------------------------------------------------------------------------------------


@app.command()
@command
def gen(
    task: Annotated[str, typer.Argument(help="What to generate (`ape tasks` lists them).")],
    n: Annotated[int, typer.Option("--n", help="Training rows.")] = 10_000,
    order: Annotated[str | None, typer.Option(help="Of trees: breadth (default) or depth.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random draws.")] = 42,
    n_validation: Annotated[int, typer.Option(help="Validation rows.")] = 1_000,
    n_test: Annotated[int, typer.Option(help="Test rows.")] = 1_000,
    to: Annotated[Path | None, typer.Option("--out", help="Folder; default datasets/TASK[-ORDER].")] = None,
    shard_rows: Annotated[int, typer.Option(help="Rows of a Parquet file.")] = 32_768,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another dataset there.")] = False,
    length_mean: Annotated[float | None, typer.Option(help="Words: mean length (paper: 100).")] = None,
    length_std: Annotated[float | None, typer.Option(help="Words: its deviation (paper: 10).")] = None,
    depth_mean: Annotated[float | None, typer.Option(help="Trees: mean depth (paper: 7).")] = None,
    depth_std: Annotated[float | None, typer.Option(help="Trees: its deviation (paper: 1).")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Symbols (paper: 20; tree-ops 128).")] = None,
    repeats: Annotated[int | None, typer.Option(help="repeat: how often (paper: 2).")] = None,
    branching: Annotated[int | None, typer.Option(help="Trees: children of a node (paper: 2).")] = None,
    binarise: Annotated[bool, typer.Option("--binarise", help="Trees: stored left child, right sibling.")] = False,
    side_mean: Annotated[float | None, typer.Option(help="Grids: mean height and width (default 10).")] = None,
    side_std: Annotated[float | None, typer.Option(help="Grids: their deviation (default 1).")] = None,
    ring: Annotated[int | None, typer.Option(help="ring-shift: places of the ring (default 20).")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any task option.")] = None,
    as_json: Json = False,
) -> None:
    """Generate a dataset: Parquet shards, a manifest, a dataset card."""
    from ape_cli import gen as generation
    from ape_cli import tasks
    from ape_cli.config import parse_settings

    options = {
        "length_mean": length_mean,
        "length_std": length_std,
        "depth_mean": depth_mean,
        "depth_std": depth_std,
        "vocabulary": vocabulary,
        "repeats": repeats,
        "branching": branching,
        "binarise": binarise or None,
        "side_mean": side_mean,
        "side_std": side_std,
        "ring": ring,
    }
    given = {k: v for k, v in options.items() if v is not None}
    made = tasks.make(task, order, **given | parse_settings(settings or []))
    folder = to or DATASETS / (f"{task}-{made.order}" if made.order else task)
    rows = {"train": n, "validation": n_validation, "test": n_test}
    wanted = generation.plan(made, seed=seed, rows=rows, shard_rows=shard_rows)
    with display.rows_bar(sum(rows.values())) as tick:
        outcome = generation.generate(made, wanted, folder, workers=workers, overwrite=overwrite, tick=tick)
    total = sum(rows.values())
    if outcome.shared:
        note(f"{outcome.shared:,} rows: there are too few sources like theirs for each split to have its own")
    if as_json:
        answer(
            {
                "dataset": str(folder),
                "rows": rows,
                "written": outcome.written,
                "shared": outcome.shared,
                "fingerprint": outcome.manifest.fingerprint,
            }
        )
    elif not outcome.written:
        out.print(f"{folder}: complete and verified, nothing to do ({total:,} rows)", highlight=False)
    else:
        of = "" if outcome.written == total else f", of {total:,} in all"
        out.print(f"{folder}: {outcome.written:,} rows written{of}", highlight=False)


# train -------------------------------------------------------------------------------------------


@app.command()
@command
def train(
    scheme: Annotated[str, typer.Option(help="Positional encoding (`ape schemes` lists them).")],
    structure: Annotated[str | None, typer.Option(help="What positions are read as: seq*tree(2), …")] = None,
    attention: Annotated[str, typer.Option(help="Its kind (`ape attentions` lists them).")] = "dot",
    data: Annotated[Path | None, typer.Option(help="Dataset folder.")] = None,
    task: Annotated[str | None, typer.Option(help="A task's dataset at the preset's own sizes.")] = None,
    order: Annotated[str | None, typer.Option(help="Of trees: breadth or depth.")] = None,
    preset: Annotated[str | None, typer.Option(help="paper, small or tiny; default by the machine.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights, batches and dropout.")] = 42,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any field.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Forget the run and train again.")] = False,
    no_eval: Annotated[bool, typer.Option("--no-eval", help="Do not evaluate on the test split.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    threads: Threads = None,
    results: Results = RESULTS,
    datasets: Datasets = DATASETS,
    as_json: Json = False,
) -> None:
    """Train one run, evaluate it on the test split, register it."""
    from ape_cli import attention as attentions
    from ape_cli import config, position, trial
    from ape_cli import dataset as reading
    from ape_cli import registry as registering
    from ape_cli import train as training
    from ape_cli.build import choose_device, locality

    if data is not None and (task is not None or order is not None):
        raise UsageError("--data names a whole dataset", got="--data with --task or --order", fix="use one")
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other", got="both", fix="use one")
    where = choose_device(device, threads)
    name = preset or ("paper" if where.type == "cuda" else "small")
    resolved = config.resolve(
        name,
        scheme,
        position.options(scheme),
        structure=structure,
        attention=attention,
        attention_options=attentions.options(attention),
        seed=seed,
        precision=precision,
        settings=config.parse_settings(settings or []),
    )
    locality(resolved)
    note(f"preset: {name} ({config.preset(name).about}){'' if preset else '; --preset chooses another'}")
    if data is not None:
        found = reading.open(data)
    elif task is not None:
        found = trial.preset_dataset(task, order, name, datasets, note)
    else:
        found = trial.choose_dataset(scheme, structure, order, name, datasets, note)
    with _stoppable() as stop, display.steps_bar() as watch:
        try:
            done = trial.run_trial(
                resolved,
                found,
                registering.open(results),
                device=where,
                resume=resume,
                overwrite=overwrite,
                test=not no_eval,
                note=note,
                watch=watch,
                stop=stop,
            )
        except training.Stopped:
            note("stopped, and stored: the same command with --resume goes on")
            raise typer.Exit(130) from None
    about = done.run.read()
    if as_json:
        answer({"run": done.run.name, "trained": done.trained, **about["result"], "test": done.evaluation})
        return
    display.print_trained(done.run.name, about["result"], done.evaluation)


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C (or SIGTERM) asks for a stop at the next step; the second one interrupts."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        note("stopping after this step …")

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# eval --------------------------------------------------------------------------------------------


@app.command("eval")
@command
def evaluate(
    runs: Annotated[list[str] | None, typer.Argument(help="Names, or beginnings of them.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Another dataset; default each run's own.")] = None,
    decode: Annotated[str, typer.Option(help="teacher; greedy: the model reads what it wrote.")] = "teacher",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    batch_size: Annotated[int, typer.Option(help="Rows at once; no result depends on it.")] = 256,
    threads: Threads = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Evaluate runs. Without names: every finished run not yet evaluated on that data."""
    from ape_cli import dataset as reading
    from ape_cli import evaluate as evaluating
    from ape_cli import registry as registering
    from ape_cli.build import choose_device
    from ape_cli.errors import pick
    from ape_cli.record import DECODINGS
    from ape_cli.schema import SPLITS

    pick("decoding", decode, DECODINGS)
    pick("split", split, SPLITS)
    where = choose_device(device, threads)
    if batch_size < 1:
        raise UsageError("bad --batch-size", got=batch_size, allowed="1 or more", fix="leave it out")
    registry = registering.open(results)
    other = None if data is None else reading.open(data)
    if runs:
        chosen = list({run.name: run for run in map(registry.find, runs)}.values())
    else:
        chosen = evaluating.pending(registry, other, split, decode)
        _note_unreadable(registry.sound()[1])
        if not chosen:
            note("nothing to evaluate: every finished run that fits has been evaluated so (or there is none)")
    done, failed = [], 0
    for run in chosen:
        try:
            against = other or evaluating.own_dataset(run)
            found = evaluating.evaluate(run, against, split=split, decode=decode, device=where, batch_size=batch_size)
        except ApeError as error:
            if len(chosen) == 1:
                raise
            failed += 1
            note(f"error: {run.name}: {error}")
            continue
        done.append(found)
        if not as_json:
            name = evaluating.name_of(against, split, "teacher")
            display.print_evaluation(found, run.evaluation(name) if decode == "greedy" else None)
    if as_json:
        answer(done)
    if failed:
        raise typer.Exit(1)


def _note_unreadable(bad: list[str]) -> None:
    for line in bad:
        note(f"left out: {line}")


# report ------------------------------------------------------------------------------------------


@app.command()
@command
def report(
    style: Annotated[str | None, typer.Option("--format", help="rich, markdown, latex, csv, json, html.")] = None,
    metric: Annotated[str, typer.Option(help="token_accuracy, exact_match or cross_entropy.")] = "token_accuracy",
    against: Annotated[str | None, typer.Option(help="`paper`: its numbers beside ours.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    decode: Annotated[str, typer.Option(help="teacher or greedy.")] = "teacher",
    preset: Annotated[str | None, typer.Option(help="Only runs of this preset.")] = None,
    to: Annotated[Path | None, typer.Option("--out", help="Write to a file; its ending tells the format.")] = None,
    results: Results = RESULTS,
) -> None:
    """Aggregate the registry over seeds into the paper's tables."""
    from ape_cli import files, render
    from ape_cli import registry as registering
    from ape_cli import report as reporting
    from ape_cli.errors import pick

    endings = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}
    if style is None and to is not None and to.suffix not in endings:
        known = ", ".join(endings)
        raise UsageError("the file's ending tells no format", got=str(to), allowed=known, fix="name one with --format")
    chosen = pick("format", style or (endings[to.suffix] if to else "rich"), render.FORMATS)
    found, bad = reporting.lines(
        registering.open(results), metric=metric, decode=decode, split=split, preset=preset, against=against
    )
    _note_unreadable(bad)
    if chosen == "rich" and to is None:
        out.print(render.rich(reporting.tables(found)))
        return
    if chosen == "csv":
        text = found.write_csv()
    elif chosen == "json":
        text = json.dumps(found.to_dicts(), indent=2, ensure_ascii=False) + "\n"
    else:
        text = render.text(chosen, reporting.tables(found))
    if to is None:
        sys.stdout.write(text)
    else:
        files.write_text(to, text)
        note(f"written: {to}")


# What there is -----------------------------------------------------------------------------------


@app.command()
@command
def tasks(as_json: Json = False) -> None:
    """The tasks, with their options."""
    lines = catalogue.tasks()
    answer(lines) if as_json else catalogue.print_tasks(lines)


@app.command()
@command
def schemes(
    measure: Annotated[bool, typer.Option("--measure", help="Time and memory too, beside `none` (a minute).")] = False,
    as_json: Json = False,
) -> None:
    """The positional encoding schemes, compared by their properties."""
    lines = catalogue.schemes(measure, display.ticker())
    answer(lines) if as_json else catalogue.print_schemes(lines)


@app.command()
@command
def attentions(as_json: Json = False) -> None:
    """The kinds of attention, with what they take."""
    lines = catalogue.attentions()
    answer(lines) if as_json else catalogue.print_attentions(lines)


@app.command()
@command
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Schemes or attentions; default all.")] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure the laws that schemes and attentions claim; ends with 1 if one does not hold."""
    import dataclasses

    from ape_cli.build import choose_device

    choose_device("cpu", threads)
    found = catalogue.findings(names or [], display.ticker())
    if as_json:
        answer([dataclasses.asdict(f) for f in found])
    else:
        catalogue.print_findings(found)
    if not all(f.holds for f in found):
        raise typer.Exit(1)


@app.command()
@command
def runs(results: Results = RESULTS, as_json: Json = False) -> None:
    """The registered runs."""
    from ape_cli import registry as registering

    registry = registering.open(results)
    _note_unreadable(registry.sound()[1])
    found = registry.runs()
    if as_json:
        answer(found.to_dicts())
        return
    if found.is_empty():
        note(f"no runs in {results} yet; `ape train --scheme rope --task copy` makes one")
        return
    catalogue.print_runs(found.to_dicts())


@app.command()
@command
def show(
    data: Annotated[Path, typer.Argument(metavar="DATASET", help="Folder, or its name under datasets/.")],
    row: Annotated[int, typer.Option(help="Which row.")] = 0,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "train",
    as_json: Json = False,
) -> None:
    """A sample as a person reads it."""
    from ape_cli import sample

    folder = data if data.exists() else DATASETS / data
    found = sample.read(folder if folder.exists() else data, split, row)
    if as_json:
        answer(found.raw)
    else:
        out.print(found.drawn())


def main() -> None:
    """The console script."""
    app()
