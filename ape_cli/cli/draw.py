"""`ape draw`: pictures of what a positional encoding does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ape_cli.cli import _picture_material
from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli._picture_material import Places, SampleOptions, SchemeOptions
from ape_cli.cli.console import draw, note, say_names
from ape_cli.cli.options import OUTPUT, PICTURE, TRAINED, Folders, Place, flags_of, option, path
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:
    from ape_cli.reports.pictures import PictureKind
    from ape_cli.runs.run import Run


def _list_views(show: bool) -> None:
    """`--views`: print the kinds of pictures, and exit."""
    if not show:
        return
    from ape_cli.reports import pictures

    say_names((kind.name, kind.about) for kind in map(pictures.load, pictures.names()))
    raise typer.Exit


@dataclass(frozen=True)
class PictureOptions:
    """What is drawn, and where."""

    PANEL: ClassVar = PICTURE
    view: str | None = option("Kind of picture (`ape draw --views` lists them).")
    views: bool = option("List the kinds of pictures and exit.", default=False, callback=_list_views, is_eager=True)
    run: str | None = option("Name of a trained run, or its beginning: draw its weights.", metavar="RUN", panel=TRAINED)
    to: Place | None = path(
        "Write to a file. Its extension decides the format: .svg, .png or .pdf.", "--out", metavar="FILE", panel=OUTPUT
    )


@command("ape draw rope --view pairs", name="draw")
def picture(
    scheme: Annotated[
        str | None, typer.Argument(help="Positional encoding (`ape schemes` lists them). Default: that of --run.")
    ] = None,
    *,
    picture: PictureOptions,
    of_scheme: SchemeOptions,
    places: Places,
    sample: SampleOptions,
    folders: Folders,
) -> None:
    """Draw what a positional encoding does. Shows scores by offset, of pairs and from a node, and a run's attention.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    runtime.share_cores()
    from ape_cli.reports import pictures, plots

    kind, run, out = pictures.load(picture.view or pictures.DEFAULT), picture.run, picture.to
    if out is not None:
        pick("extension", out.suffix, [f".{known}" for known in plots.FORMATS])
        plots.require()
    _check_options(kind, scheme, run, of_scheme, places, sample)
    if run is None:
        assert scheme is not None
        material = _picture_material.of_scheme(scheme, of_scheme, places)
    else:
        from ape_cli.runs.registry import open_registry

        trained = open_registry(folders.results).find(run)
        _check_run(trained, scheme)
        if kind.needs == "attention":
            data = None if sample.data is None else existing_dataset(sample.data, folders.datasets)
            material = _picture_material.of_attention(trained, data, sample)
        else:
            material = _picture_material.of_run(trained, places, before=kind.needs == "training")
    rows = kind.panels(material)
    if out is None:
        from ape_cli.cli.picture_text import PictureText

        draw(PictureText(material.title, rows))
        return
    from ape_cli.reports.pictures._figure import encoded
    from ape_cli.storage import files

    files.write_bytes(out, encoded(material.title, rows, out.suffix[1:]))
    note(f"written: {out}")


def _check_options(
    kind: PictureKind,
    scheme: str | None,
    run: str | None,
    of_scheme: SchemeOptions,
    places: Places,
    sample: SampleOptions,
) -> None:
    """Check that all options that are given have an effect. Raises `UsageError` if one has none."""
    view = f"--view {kind.name}"
    if run is None and kind.needs != "scheme":
        raise UsageError(f"the view {kind.name} needs a trained run", got=f"{view} without --run", fix="add --run RUN")
    if run is None and scheme is None:
        raise UsageError("nothing to draw", got="no scheme and no run", allowed="one of them", fix="ape draw rope")
    without_effect: list[tuple[object, str, str]] = []
    if run is not None:
        without_effect += [(of_scheme, "the run decides this", "leave it out")]
    if kind.needs == "attention":
        without_effect += [(places, "a sample has its own places", f"leave it out, or {view}")]
    else:
        without_effect += [(sample, "only --view attention shows a sample", "add --view attention")]
        if not kind.from_one_node:
            only_node = Places(node=places.node)
            without_effect += [(only_node, f"{view} has no single node", "use --view nodes or overview")]
    for options, why, fix in without_effect:
        for flag in flags_of(options):
            raise UsageError(f"{flag} has no effect: {why}", got=f"{flag} with {view}", fix=fix)


def _check_run(run: Run, scheme: str | None) -> None:
    """Check that a run is finished, has weights, and is of the scheme that was named, if one was.

    Raises `UsageError` or `RunError` if not.
    """
    from ape_cli.evaluation.fit import check_finished

    trained = check_finished(run).config.scheme
    if scheme not in (None, trained):
        raise UsageError(
            "the run has another scheme", got=f"{scheme} and --run {run.name}", allowed=trained, fix="leave one out"
        )
    run.require_weights()
