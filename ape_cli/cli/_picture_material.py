"""What `ape draw` draws: the scores of a new scheme or of a run's scheme, or the attention weights of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ape_cli.cli.console import shown
from ape_cli.cli.options import MODEL, PLACES, TRAINED, Place, option, path
from ape_cli.core.errors import UsageError, unknown

if TYPE_CHECKING:  # numpy and torch are imported by the command when it runs
    import numpy as np
    from numpy.typing import NDArray

    from ape_cli.position import Scheme
    from ape_cli.reports.pictures import Material, Subject
    from ape_cli.runs.run import Run
    from ape_cli.storage.paths import StoragePath
    from ape_cli.structure import Structure

_PRESET = "small"  # for the width of the model
_COMMON = ("d_model", "decay", "max_size")  # settings of every scheme
_OPTIONS = ("heads", "seed", "structure")  # options of the command line
_MOST_HEADS = 1024


@dataclass(frozen=True)
class SchemeOptions:
    """Options of the scheme that is drawn, which a trained run decides itself."""

    PANEL: ClassVar = MODEL
    structure: str | None = option(
        "Structure as which positions are read, for example seq*tree(2). Default: the scheme's own."
    )
    heads: int | None = option("Number of heads. Default: 4.")
    seed: int | None = option("Seed for weights. Default: 42.")
    settings: list[str] | None = option(
        "Any option of the scheme, d_model, decay or max_size; may be repeated.", "--set", metavar="KEY=VALUE"
    )


@dataclass(frozen=True)
class Places:
    """The places between which scores are drawn."""

    PANEL: ClassVar = PLACES
    length: int | None = option("Number of places along a sequence. Default: 32; 6 in a product.")
    depth: int | None = option("Depth of a complete tree. Default: 4; 2 in a product.")
    side: int | None = option("Number of places along each axis of a grid. Default: 6; 3 in a product.")
    node: str | None = option(
        "Place of the query in views from a node: 12, or 2,3 in a grid. Default: the middle; node 2 of trees."
    )


@dataclass(frozen=True)
class SampleOptions:
    """The sample on which the attention of a run is drawn."""

    PANEL: ClassVar = TRAINED
    attention: str | None = option("Attention of the model: encoder (default), decoder, or cross (between them).")
    split: str | None = option("Split of the sample: train, validation or test. Default: test.")
    row: int | None = option("Row number of the sample in the split, from 0. Default: 0.")
    data: Place | None = path("Dataset of the sample. Default: the dataset of the run.")


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
    """The scores of a scheme with initial weights. Raises `UsageError` for options without an effect."""
    from ape_cli import position
    from ape_cli.evaluation.position_scores import initial_scheme
    from ape_cli.reports.pictures import Material
    from ape_cli.runs import config
    from ape_cli.structure import Tree, example

    cls, defaults = position.load(name), position.options(name)
    settings = config.parse_settings(options.settings or [])
    _check_settings(name, settings, defaults, bounded=cls.bounded)
    heads = 4 if options.heads is None else options.heads
    seed = 42 if options.seed is None else options.seed
    if not 1 <= heads <= _MOST_HEADS:
        raise UsageError("bad --heads", got=heads, allowed=f"1 to {_MOST_HEADS}", fix="leave it out for 4")
    chosen = config.resolve(
        _PRESET, name, defaults, structure=options.structure, seed=seed, settings=settings | {"heads": heads}
    )
    structure = example(cls.structures[0]) if chosen.structure is None else chosen.structure.algebra
    at, node = places_of(where, structure)
    scheme = initial_scheme(
        name,
        seed,
        d_model=chosen.d_model,
        heads=heads,
        structure=structure,
        max_size=chosen.max_size or max(1, int((structure.level(at) if isinstance(structure, Tree) else at).max())),
        decay=chosen.decay,
        **chosen.scheme_options,
    )
    if options.seed is not None and not scheme.properties.learnable:
        raise UsageError(f"--seed has no effect: {name} has no weights", got="--seed", fix="leave it out")
    if options.heads is not None and scheme.properties.injection == "embeddings":
        why = f"{name} acts on embeddings, before there are heads"
        raise UsageError(f"--heads has no effect: {why}", got="--heads", fix="leave it out")
    title = f"{name}{_changed(settings)} {_about(scheme)}"
    if scheme.properties.learnable:
        title += f", initial weights of seed {seed}"
    return Material(title, [_subject(scheme, at)], node)


def of_run(run: Run, where: Places, *, before: bool) -> Material:
    """The scores of a finished run's scheme, with its best weights.

    `before`: whether the scores with the run's initial weights stand before them. Raises `UsageError` if the scheme of
    the run has no weights and they are asked for, and `RunError` if the run has no usable weights.
    """
    from ape_cli.experiment.reading import read_as
    from ape_cli.experiment.resolution import make_scheme
    from ape_cli.models.checkpoint import load_scheme
    from ape_cli.reports.pictures import Material
    from ape_cli.structure import parse_structure

    config, structure = run.known.config, parse_structure(run.known.dataset.structure)
    read = read_as(config, structure)
    initial, trained = make_scheme(config, read), make_scheme(config, read)
    if before and not initial.properties.learnable:
        raise UsageError(
            "training does not change this scheme, because it has no weights",
            got=f"{config.scheme} of run {run.name}",
            fix="--view attention shows what the run has learned",
        )
    at, node = places_of(where, initial.structure, config.max_size if initial.bounded else None)
    subjects = [_subject(initial, at, "before training")] if before else []
    load_scheme(run, trained)
    subjects.append(_subject(trained, at, "after training" if before else ""))
    title = f"{run.name}: {config.scheme}{_changed(config.scheme_options)} {_about(initial)}"
    return Material(title, subjects, node)


def of_attention(run: Run, folder: StoragePath | None, sample: SampleOptions) -> Material:
    """The attention weights of a finished run on a row of a dataset; None for its own.

    Raises `UsageError`, `DataError` or `RunError` if that is not possible.
    """
    from ape_cli.data.loader import open_dataset
    from ape_cli.evaluation.attention_maps import attention_maps
    from ape_cli.evaluation.evaluate import own_dataset
    from ape_cli.reports.pictures import Material

    data = own_dataset(run) if folder is None else open_dataset(folder)
    part, split, row = sample.attention or "encoder", sample.split or "test", sample.row or 0
    maps = attention_maps(run, data, split, row, part)
    title = f"{run.name}: {part} attention on {data.name}, {split} row {row}"
    return Material(title, weights=maps.weights, tokens=(maps.queries, maps.keys))


def _check_settings(scheme: str, settings: dict[str, Any], options: dict[str, Any], *, bounded: bool) -> None:
    """Check that each setting is known and has an effect. Raises `UsageError` if not."""
    for key, value in settings.items():
        if key in _OPTIONS:
            raise UsageError(f"{key} is not a setting here", got=f"{key}={value}", fix=f"it is an option: --{key}")
        if key not in options and key not in _COMMON:
            raise unknown(f"option of {scheme}", key, [*options, *_COMMON])
        if key == "max_size" and not bounded:
            raise UsageError(f"{scheme} is not bounded by a size", got=f"{key}={value}", fix="leave max_size out")


def _subject(scheme: Scheme, at: Any, name: str = "") -> Subject:
    """The scores of a scheme between places, int64 [N] or [N, C]."""
    from ape_cli.evaluation.position_scores import position_scores
    from ape_cli.reports.pictures import Subject

    scores, measure = position_scores(scheme, at)
    return Subject(scheme.structure, at, scores, measure, name)


def _changed(settings: dict[str, Any]) -> str:
    """The settings, in brackets; empty if there are none."""
    return f" ({', '.join(f'{key}={shown(value)}' for key, value in settings.items())})" if settings else ""


def _about(scheme: Scheme) -> str:
    """The structure and the sizes of a scheme, in words."""
    heads, decay = scheme.shape.heads, scheme.shape.decay
    inside = scheme.properties.injection == "embeddings"
    size = f"{scheme.shape.d_model} channels" if inside else f"{heads} heads of {scheme.shape.head_dim} channels"
    return f"on {scheme.structure}, {size}{f', locality bias {decay:g}' if decay != 1 else ''}"
