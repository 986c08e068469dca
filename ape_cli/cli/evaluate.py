"""`ape eval`: metrics of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ape_cli.cli import console
from ape_cli.cli._app import (
    RESULTS,
    Json,
    Results,
    Somewhere,
    Threads,
    app,
    command,
    dataset_folder,
    note_unreadable,
    somewhere,
)
from ape_cli.cli.console import answer, note
from ape_cli.core import runtime
from ape_cli.core.errors import ApeError, UsageError

if TYPE_CHECKING:  # torch comes in with the command
    from ape_cli.data.loader import Dataset
    from ape_cli.runs.run import Run


@app.command("eval")
@command
def evaluate(
    runs: Annotated[list[str] | None, typer.Argument(help="Names, or beginnings of them.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    data: Annotated[
        list[Somewhere] | None, somewhere("Another dataset, or several: --data A --data B; default each run's own.")
    ] = None,
    decode: Annotated[str, typer.Option(help="teacher; greedy: the model reads what it wrote.")] = "teacher",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    batch_size: Annotated[int, typer.Option(help="Rows at once; no result depends on it.")] = 256,
    threads: Threads = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Evaluate runs, each on every dataset that it fits. Without names: what is finished and not yet evaluated so."""
    runtime.share_cores()
    from ape_cli.core.errors import pick
    from ape_cli.core.vocabulary import SPLITS
    from ape_cli.data.loader import open_dataset
    from ape_cli.evaluation import evaluate
    from ape_cli.models.device import choose_device
    from ape_cli.runs.record import DECODINGS
    from ape_cli.runs.registry import open_registry

    pick("decoding", decode, DECODINGS)
    pick("split", split, SPLITS)
    where = choose_device(device, threads)
    if batch_size < 1:
        raise UsageError("bad --batch-size", got=batch_size, allowed="1 or more", fix="leave it out")
    registry = open_registry(results)
    opened = [open_dataset(dataset_folder(folder)) for folder in data or []]
    for asked in opened:
        evaluate.check_decoding(asked, decode)
    others = list({found.manifest.fingerprint: found for found in opened}.values())
    work: list[tuple[Run, Dataset | None]]
    if runs:
        named = {run.name: run for run in map(registry.find, runs)}.values()
        work = [(run, other) for run in named for other in (evaluate.fitting(run, others) if others else [None])]
    else:
        work, bad = evaluate.pending(registry, others, split, decode)
        note_unreadable(bad)
        if not work:
            left = "; a run on images has nothing to decode greedily" if decode == "greedy" else ""
            note(f"nothing to evaluate: every finished run that fits has been evaluated so (or there is none){left}")
    done, failed = [], 0
    for run, other in work:
        try:
            against = other or evaluate.own_dataset(run)
            found = evaluate.evaluate(run, against, split=split, decode=decode, device=where, batch_size=batch_size)
        except ApeError as error:
            if len(work) == 1:
                raise
            failed += 1
            note(f"error: {run.name}: {error}")
            continue
        done.append(found)
        if not as_json:
            name = evaluate.name_of(against, split, "teacher")
            console.print_evaluation(found, run.evaluation(name) if decode == "greedy" else None)
    if as_json:
        answer(done)
    elif done and others:
        images = all(other.image for other in others)  # which have one size
        note(f"`ape report{'' if images else ' --by size'}` has all {'of them' if images else 'sizes'} side by side")
    if failed:
        raise typer.Exit(1)
