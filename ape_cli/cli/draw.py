"""`ape draw`: pictures of what a positional encoding does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._app import (
    DATASETS,
    RESULTS,
    Datasets,
    Results,
    Somewhere,
    command,
    existing_dataset,
    somewhere,
)
from ape_cli.cli._help import MODEL, OUTPUT, PICTURE, PLACES, TRAINED
from ape_cli.cli.console import draw, note, say_names
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:
    from ape_cli.reports.pictures import PictureKind
    from ape_cli.runs.registry import Registry
    from ape_cli.runs.run import Run


@command("ape draw rope --view pairs", name="draw")
def picture(
    scheme: Annotated[
        str | None, typer.Argument(help="Positional encoding (`ape schemes` lists them). Default: that of --run.")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="Kind of picture (`ape draw --views` lists them).", rich_help_panel=PICTURE)
    ] = None,
    views: Annotated[
        bool,
        typer.Option(
            "--views",
            callback=_list_views,
            is_eager=True,
            help="List the kinds of pictures and exit.",
            rich_help_panel=PICTURE,
        ),
    ] = False,
    structure: Annotated[
        str | None,
        typer.Option(
            help="Structure as which positions are read, for example seq*tree(2). Default: the scheme's own.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help="Number of places along a sequence. Default: 32; 6 in a product.", rich_help_panel=PLACES),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(help="Depth of a complete tree. Default: 4; 2 in a product.", rich_help_panel=PLACES)
    ] = None,
    side: Annotated[
        int | None,
        typer.Option(
            help="Number of places along each axis of a grid. Default: 6; 3 in a product.", rich_help_panel=PLACES
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            help="Place of the query in views from a node: 12, or 2,3 in a grid. Default: the middle; node 2 of trees.",
            rich_help_panel=PLACES,
        ),
    ] = None,
    heads: Annotated[int | None, typer.Option(help="Number of heads. Default: 4.", rich_help_panel=MODEL)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for weights. Default: 42.", rich_help_panel=MODEL)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any option of the scheme, d_model, decay or max_size; may be repeated.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of a trained run, or its beginning: draw its weights.", metavar="RUN", rich_help_panel=TRAINED
        ),
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(
            help="Attention of the model: encoder (default), decoder, or cross (between them).", rich_help_panel=TRAINED
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split of the sample: train, validation or test. Default: test.", rich_help_panel=TRAINED),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(help="Row number of the sample in the split, from 0. Default: 0.", rich_help_panel=TRAINED),
    ] = None,
    data: Annotated[
        Somewhere | None, somewhere("Dataset of the sample. Default: the dataset of the run.", group=TRAINED)
    ] = None,
    to: Annotated[
        Somewhere | None,
        somewhere(
            "Write to a file. Its extension decides the format: .svg, .png or .pdf.",
            "--out",
            metavar="FILE",
            group=OUTPUT,
        ),
    ] = None,
    datasets: Datasets = DATASETS,
    results: Results = RESULTS,
) -> None:
    """Draw what a positional encoding does. Shows scores by offset, of pairs and from a node, and a run's attention.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    runtime.share_cores()
    from ape_cli.reports import pictures, plots

    kind = pictures.load(view or pictures.DEFAULT)
    if to is not None:
        pick("extension", to.suffix, [f".{known}" for known in plots.FORMATS])
        plots.require()
    of_scheme = {"structure": structure, "heads": heads, "seed": seed, "set": settings or None}
    of_places = {"length": length, "depth": depth, "side": side, "node": node}
    of_sample = {"attention": attention, "split": split, "row": row, "data": data}
    _check_options(kind, scheme, run, of_scheme, of_places, of_sample)
    from ape_cli.cli import _picture_material
    from ape_cli.runs import config
    from ape_cli.runs.registry import open_registry

    where = _picture_material.Where(length, depth, side, node)
    if run is None:
        assert scheme is not None
        _check_no_run(scheme, open_registry(results))
        first, asked = 42 if seed is None else seed, config.parse_settings(settings or [])
        chosen = [name for name, value in (("heads", heads), ("seed", seed)) if value is not None]
        many = 4 if heads is None else heads
        material = _picture_material.of_scheme(scheme, structure, many, first, asked, where, chosen)
    else:
        found = open_registry(results).find(run)
        _check_run(found, scheme)
        if kind.needs == "attention":
            folder = None if data is None else existing_dataset(data, datasets)
            material = _picture_material.of_attention(found, folder, split or "test", row or 0, attention or "encoder")
        else:
            material = _picture_material.of_run(found, where, before=kind.needs == "training")
    rows = kind.panels(material)
    if to is None:
        from ape_cli.cli.picture_text import PictureText

        draw(PictureText(material.title, rows))
        return
    from ape_cli.reports.pictures._figure import encoded
    from ape_cli.storage import files

    files.write_bytes(to, encoded(material.title, rows, to.suffix[1:]))
    note(f"written: {to}")


def _check_options(
    kind: PictureKind,
    scheme: str | None,
    run: str | None,
    of_scheme: dict[str, Any],
    of_places: dict[str, Any],
    of_sample: dict[str, Any],
) -> None:
    """Check that all options that are given have an effect. Raises `UsageError` if one has none."""
    view = f"--view {kind.name}"
    if run is None and kind.needs != "scheme":
        raise UsageError(f"the view {kind.name} needs a trained run", got=f"{view} without --run", fix="add --run RUN")
    if run is None and scheme is None:
        raise UsageError("nothing to draw", got="no scheme and no run", allowed="one of them", fix="ape draw rope")
    reasons = []
    if run is not None:
        reasons += [(name, value, "the run decides this", "leave it out") for name, value in of_scheme.items()]
    if kind.needs == "attention":
        reasons += [
            (name, value, "a sample has its own places", f"leave it out, or {view}")
            for name, value in of_places.items()
        ]
    else:
        reasons += [
            (name, value, "only --view attention shows a sample", "add --view attention")
            for name, value in of_sample.items()
        ]
    if not kind.from_one_node:
        reasons += [("node", of_places["node"], f"{view} has no single node", "use --view nodes or overview")]
    for name, value, why, fix in reasons:
        if value is not None:
            raise UsageError(f"--{name} has no effect: {why}", got=f"--{name} with {view}", fix=fix)


def _check_no_run(scheme: str, registry: Registry) -> None:
    """Check that the name of a scheme is not that of a run. Raises `UsageError` if it is."""
    from ape_cli import position

    if scheme not in position.names() and any(run.name == scheme for run in registry):
        raise UsageError("this is a run, not a scheme", got=scheme, fix=f"ape draw --run {scheme}")


def _check_run(run: Run, scheme: str | None) -> None:
    """Check that a run is finished, has weights, and is of the scheme that was named, if one was.

    Raises `UsageError` or `RunError` if not.
    """
    from ape_cli.evaluation.fit import check_finished

    own = check_finished(run).config.scheme
    if scheme not in (None, own):
        raise UsageError(
            "the run has another scheme", got=f"{scheme} and --run {run.name}", allowed=own, fix="leave one out"
        )
    run.require_weights()


def _list_views(wanted: bool) -> None:
    """`--views`: print the kinds of pictures, and exit."""
    if not wanted:
        return
    from ape_cli.reports import pictures

    say_names((kind.name, kind.about) for kind in map(pictures.load, pictures.names()))
    raise typer.Exit
