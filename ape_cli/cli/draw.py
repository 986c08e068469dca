"""`ape draw`: pictures of a new scheme, of the scheme of a run, or of the attention weights of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli.console import draw, print_note, shown
from ape_cli.cli.options import (
    MODEL,
    OUTPUT,
    PICTURE,
    PLACES,
    TRAINED,
    AnyPath,
    Folders,
    flags_of,
    listing,
    option,
    path,
    refuse_idle,
)
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:  # numpy and torch are imported by the command when it runs
    import numpy as np
    from numpy.typing import NDArray

    from ape_cli.position import Scheme
    from ape_cli.reports.pictures import Material, PictureKind, Subject
    from ape_cli.runs.config import Config
    from ape_cli.runs.run import Run
    from ape_cli.storage.paths import StoragePath
    from ape_cli.structure import Structure

_PRESET = "small"  # for the width of the model


@dataclass(frozen=True)
class PictureOptions:
    """What is drawn, and where."""

    PANEL: ClassVar = PICTURE
    view: str | None = option("Kind of picture (`ape draw --views` lists them).")
    views: bool = option(
        "List the kinds of pictures and exit.",
        default=False,
        callback=listing("ape_cli.reports.pictures"),
        is_eager=True,
    )
    run: str | None = option("Draw the weights of this run (its name or a prefix).", metavar="RUN", panel=TRAINED)
    to: AnyPath | None = path(
        "File to write. Its extension determines the format: .svg, .png or .pdf.", "--out", metavar="FILE", panel=OUTPUT
    )


@dataclass(frozen=True)
class SchemeOptions:
    """Options of the scheme that is drawn, which a trained run decides itself."""

    PANEL: ClassVar = MODEL
    structure: str | None = option(
        "Structure that positions are read as, such as seq*tree(2). Default: that of the scheme."
    )
    heads: int = option("Number of heads.", default=4)
    seed: int = option("Seed for weights.", default=42)
    settings: list[str] | None = option(
        "Set an option of the scheme, d_model, decay, max_size or positions_scale; may be repeated.",
        "--set",
        metavar="KEY=VALUE",
    )


@dataclass(frozen=True)
class Places:
    """The places between which scores are drawn."""

    PANEL: ClassVar = PLACES
    length: int | None = option("Number of places along a sequence. Default: 32; 6 in a product.")
    depth: int | None = option("Depth of a complete tree. Default: 4; 2 in a product.")
    side: int | None = option("Number of places along each axis of a grid. Default: 6; 3 in a product.")
    node: str | None = option(
        "Place of the query in views from a node: 12, or 2,3 in a grid. Default: the middle, or node 2 of a tree."
    )


@dataclass(frozen=True)
class SampleOptions:
    """The sample on which the attention of a run is drawn."""

    PANEL: ClassVar = TRAINED
    attention: str | None = option(
        "Attention of the model: encoder, decoder, or cross (between them). Default: the first that exists."
    )
    split: str = option("Split of the sample: train, validation or test.", default="test")
    row: int = option("Row number in the split, from 0.", default=0)
    data: AnyPath | None = path("Dataset of the sample. Default: the dataset of the run.")


@command("ape draw rope --view pairs", name="draw")
def picture(
    scheme: Annotated[
        str | None, typer.Argument(help="Positional encoding (`ape schemes` lists them). Default: that of --run.")
    ] = None,
    *,
    picture: PictureOptions,
    model: SchemeOptions,
    places: Places,
    sample: SampleOptions,
    folders: Folders,
) -> None:
    """Draw the scores of an encoding, or the attention of a run.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    runtime.share_cores()
    from ape_cli.reports import pictures, plots

    picture_kind, run, out = pictures.load(picture.view or pictures.DEFAULT), picture.run, picture.to
    if out is not None:
        pick("extension", out.suffix, [f".{extension}" for extension in plots.FORMATS])
        plots.require()
    view = f"--view {picture_kind.name}{' --run' if run else ''}"
    if run is None and picture_kind.needs != "scheme":
        raise UsageError(
            f"the view {picture_kind.name} needs a trained run", got=f"{view} without --run", fix="add --run RUN"
        )
    without_effect = flags_of(model) if run else []  # a run decides what its model is
    without_effect += flags_of(places) if picture_kind.needs == "attention" else flags_of(sample)
    without_effect += [] if picture_kind.from_one_node else flags_of(Places(node=places.node))
    refuse_idle(*((True, flag, f"with {view}") for flag in without_effect))
    if run is not None:
        material = _of_chosen_run(run, scheme, picture_kind, places, sample, folders)
    elif scheme is not None:
        material = of_scheme(scheme, model, places)
    else:
        raise UsageError("nothing to draw", got="no scheme and no run", allowed="one of them", fix="ape draw rope")
    rows = pictures.drawn(picture_kind, material)
    if out is None:
        from ape_cli.cli.drawings import PictureText

        draw(PictureText(material.title, rows))
        return
    from ape_cli.reports.pictures._figure import figure
    from ape_cli.reports.plots import encode
    from ape_cli.storage import files

    files.write_bytes(out, encode(figure(material.title, rows), out.suffix[1:]))
    print_note(f"written: {out}")


def _of_chosen_run(
    name: str, scheme: str | None, picture_kind: PictureKind, places: Places, sample: SampleOptions, folders: Folders
) -> Material:
    """What a picture of a run is made of. Raises `UsageError` or `RunError` if the run cannot be drawn."""
    from ape_cli.evaluation.evaluate import check_finished
    from ape_cli.runs.registry import open_registry

    run = open_registry(folders.results).find(name)
    trained = check_finished(run).config.scheme
    if scheme not in (None, trained):
        got = f"{scheme} and --run {run.name}"
        raise UsageError("the run uses another scheme", got=got, allowed=trained, fix="leave one out")
    run.require_weights()
    if picture_kind.needs == "attention":
        return of_attention(run, sample, folders.datasets)
    return of_run(run, places, before=picture_kind.needs == "training")


def places_of(
    options: Places, structure: Structure, largest: int | None = None
) -> tuple[NDArray[np.int64], int | None]:
    """The places, int64 [N] or [N, C], and the index of the chosen one, or None for the usual one.

    `largest`: the size that a bounded scheme is made for; a default size does not exceed it. Raises `UsageError`.
    """
    from ape_cli.reports.pictures._places import ALONE, index_of, places, sizes_of

    sizes = {"length": options.length, "depth": options.depth, "side": options.side}
    for name in sizes_of(structure):
        if largest is not None and sizes[name] is None:
            sizes[name] = min(largest, ALONE[name])
    at = places(structure, sizes)
    return at, None if options.node is None else index_of(options.node, at)


def of_scheme(name: str, options: SchemeOptions, where: Places) -> Material:
    """The scores of a scheme with initial weights. Raises `UsageError` for an unknown setting."""
    from ape_cli import position
    from ape_cli.evaluation.position_scores import initial_scheme
    from ape_cli.experiment import ExperimentSpec
    from ape_cli.reports.pictures import Material
    from ape_cli.runs import config
    from ape_cli.structure import Tree, example

    cls = position.load(name)
    settings, seed = config.parse_settings(options.settings or []), options.seed
    sizes = ["d_model", "decay", *["max_size"] * cls.bounded, *["positions_scale"] * cls.overrides("embed")]
    for key in settings:
        pick(f"setting of a picture of {name}", key, [*position.options(name), *sizes])
    every = settings | {"heads": options.heads}
    spec = ExperimentSpec(preset=_PRESET, scheme=name, structure=options.structure, seed=seed, set=every)
    chosen = spec.config("sequence")
    structure = example(cls.structures[0]) if chosen.structure is None else chosen.structure.algebra
    at, node = places_of(where, structure)
    scheme = initial_scheme(
        name,
        seed,
        d_model=chosen.d_model,
        heads=options.heads,
        structure=structure,
        max_size=chosen.max_size or max(1, int((structure.level(at) if isinstance(structure, Tree) else at).max())),
        decay=chosen.decay,
        **chosen.scheme_options,
    )
    of, given = scheme.properties, flags_of(options)
    refuse_idle(
        ("--seed" in given and not of.learnable, "--seed", f"with {name}, which has no weights"),
        ("--heads" in given and of.injection == "embeddings", "--heads", f"with {name}, which acts on embeddings"),
    )
    title = f"{name}{_about(scheme, settings)}"
    if scheme.properties.learnable:
        title += f", initial weights of seed {seed}"
    return Material(title, [_subject(scheme, at, chosen)], node)


def of_run(run: Run, where: Places, *, before: bool) -> Material:
    """The scores of a finished run's scheme, with its best weights.

    `before`: whether the scores with the run's initial weights stand before them. Raises `UsageError` if the scheme of
    the run has no weights and they are asked for, and `RunError` if the run has no usable weights.
    """
    from ape_cli.experiment.reading import structure_for
    from ape_cli.experiment.resolution import make_scheme
    from ape_cli.models.checkpoint import load_scheme
    from ape_cli.reports.pictures import Material
    from ape_cli.structure import parse_structure

    config, structure = run.record.config, parse_structure(run.record.dataset.structure)
    read = structure_for(config.scheme, structure, config.structure)
    initial, trained = make_scheme(config, read), make_scheme(config, read)
    if before and not initial.properties.learnable:
        what, fix = "training does not change this scheme, because it has no weights", "use --view attention"
        raise UsageError(what, got=f"{config.scheme} of run {run.name}", fix=fix)
    at, node = places_of(where, initial.structure, config.max_size if initial.bounded else None)
    subjects = [_subject(initial, at, config, "before training")] if before else []
    load_scheme(run, trained)
    subjects.append(_subject(trained, at, config, "after training" if before else ""))
    settings = config.scheme_options | ({} if _scale(config) == 1.0 else {"positions_scale": _scale(config)})
    return Material(f"{run.name}: {config.scheme}{_about(initial, settings)}", subjects, node)


def of_attention(run: Run, sample: SampleOptions, datasets: StoragePath) -> Material:
    """The attention weights of a finished run on a row of a dataset, its own or another.

    Raises `UsageError`, `DataError` or `RunError` if that is not possible.
    """
    from ape_cli.data.loader import open_dataset
    from ape_cli.evaluation.attention_maps import attention_maps
    from ape_cli.evaluation.evaluate import own_dataset
    from ape_cli.reports.pictures import Material

    named = sample.data
    data = own_dataset(run, datasets) if named is None else open_dataset(existing_dataset(named, datasets))
    maps = attention_maps(run, data, sample.split, sample.row, sample.attention)
    title = f"{run.name}: {maps.part} attention on {data.name}, {sample.split} row {sample.row}"
    return Material(title, weights=maps.weights, tokens=(maps.queries, maps.keys))


def _scale(config: Config) -> float:
    """The factor of what the scheme adds to embeddings. It is 1 for images."""
    return float(getattr(config, "positions_scale", 1.0))


def _subject(scheme: Scheme, at: Any, config: Config, name: str = "") -> Subject:
    """The scores of a scheme between places, int64 [N] or [N, C]."""
    from ape_cli.evaluation.position_scores import position_scores
    from ape_cli.reports.pictures import Subject

    scores, measure = position_scores(scheme, at, _scale(config), decoder_only=config.decoder_only)
    return Subject(scheme.structure, at, scores, measure, name)


def _about(scheme: Scheme, settings: dict[str, Any]) -> str:
    """The settings of a scheme in brackets, its structure and its sizes, in words."""
    changed = f" ({', '.join(f'{key}={shown(value)}' for key, value in settings.items())})" if settings else ""
    heads, decay = scheme.shape.heads, scheme.shape.decay
    inside = scheme.properties.injection == "embeddings"
    size = f"{scheme.shape.d_model} channels" if inside else f"{heads} heads of {scheme.shape.head_dim} channels"
    return f"{changed} on {scheme.structure}, {size}{f', locality bias {decay:g}' if decay != 1 else ''}"
