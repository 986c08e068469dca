"""What `ape draw` draws: the scores of a new scheme or of a run's scheme, or the attention weights of a run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ape_cli.cli.values import shown
from ape_cli.core.errors import UsageError, unknown
from ape_cli.structure import Structure, Tree, example, parse_structure
from ape_cli.structure.places import ALONE, index_of, places, sizes_of

if TYPE_CHECKING:
    from ape_cli.position import Scheme
    from ape_cli.reports.pictures import Material, Subject
    from ape_cli.runs.run import Run
    from ape_cli.storage.paths import StoragePath

_PRESET = "small"  # for the width of the model
_COMMON = ("d_model", "decay", "max_size")  # settings of every scheme
_OPTIONS = ("heads", "seed", "structure")  # options of the command line
_MOST_HEADS = 1024


@dataclass(frozen=True)
class Where:
    """The places of a picture: sizes of the structure, and the place from which scores are shown."""

    length: int | None = None
    depth: int | None = None
    side: int | None = None
    node: str | None = None

    def of(self, structure: Structure, largest: int | None = None) -> tuple[Any, int | None]:
        """The places, int64 [N] or [N, C], and the index of the chosen one, or None for the usual one.

        `largest`: the size that a bounded scheme is made for; a default size does not exceed it. Raises `UsageError`.
        """
        sizes = {"length": self.length, "depth": self.depth, "side": self.side}
        for name in sizes_of(structure):
            if largest is not None and sizes[name] is None:
                sizes[name] = min(largest, ALONE[name])
        at = places(structure, sizes)
        return at, None if self.node is None else index_of(self.node, at)


def of_scheme(
    name: str,
    structure: str | None,
    heads: int,
    seed: int,
    settings: dict[str, Any],
    where: Where,
    given: Collection[str] = (),
) -> Material:
    """The scores of a scheme with the weights of a seed.

    `settings`: options of the scheme, and `d_model`, `decay` and `max_size`. `given` are those of `heads` and `seed`
    that the user has asked for, so that they have to have an effect. Raises `UsageError` for arguments that are not
    valid or do not fit together.
    """
    from ape_cli import position
    from ape_cli.evaluation.position_scores import initial_scheme
    from ape_cli.reports.pictures import Material
    from ape_cli.runs import config

    found, options = position.load(name), position.options(name)
    _check_settings(name, settings, options, bounded=found.bounded)
    if not 1 <= heads <= _MOST_HEADS:
        raise UsageError("bad --heads", got=heads, allowed=f"1 to {_MOST_HEADS}", fix="leave it out for 4")
    asked = config.resolve(_PRESET, name, options, structure=structure, seed=seed, settings=settings | {"heads": heads})
    read = example(found.structures[0]) if asked.structure is None else asked.structure.algebra
    at, node = where.of(read)
    made = initial_scheme(
        name,
        seed,
        d_model=asked.d_model,
        heads=heads,
        structure=read,
        max_size=asked.max_size or max(1, int((read.level(at) if isinstance(read, Tree) else at).max())),
        decay=asked.decay,
        **asked.scheme_options,
    )
    for option, has_effect, why in (
        ("seed", made.properties.learnable, "has no weights"),
        ("heads", made.properties.injection != "embeddings", "acts on embeddings, before there are heads"),
    ):
        if option in given and not has_effect:
            raise UsageError(f"--{option} has no effect: {name} {why}", got=f"--{option}", fix="leave it out")
    title = f"{name}{_changed(settings)} {_about(made)}"
    if made.properties.learnable:
        title += f", initial weights of seed {seed}"
    return Material(title, [_subject(made, at)], node)


def of_run(run: Run, where: Where, *, before: bool) -> Material:
    """The scores of a finished run's scheme, with its best weights.

    `before`: whether the scores with the run's initial weights stand before them. Raises `UsageError` if the scheme of
    the run has no weights and they are asked for, and `RunError` if the run has no usable weights.
    """
    from ape_cli.models.checkpoint import load_scheme
    from ape_cli.models.factory import scheme_of
    from ape_cli.reports.pictures import Material

    config, own = run.known.config, parse_structure(run.known.dataset.structure)
    made = scheme_of(config, own)
    if before and not made.properties.learnable:
        raise UsageError(
            "training does not change this scheme, because it has no weights",
            got=f"{config.scheme} of run {run.name}",
            fix="--view attention shows what the run has learned",
        )
    at, node = where.of(made.structure, config.max_size if made.bounded else None)
    found = [_subject(made, at, "before training")] if before else []
    trained = scheme_of(config, own)
    load_scheme(run, trained)
    found.append(_subject(trained, at, "after training" if before else ""))
    return Material(f"{run.name}: {config.scheme}{_changed(config.scheme_options)} {_about(made)}", found, node)


def of_attention(run: Run, folder: StoragePath | None, split: str, row: int, part: str) -> Material:
    """The attention weights of a finished run on a row of a dataset; None for its own.

    Raises `UsageError`, `DataError` or `RunError` if that is not possible.
    """
    from ape_cli.data.loader import open_dataset
    from ape_cli.evaluation.attention_maps import attention_maps
    from ape_cli.evaluation.evaluate import own_dataset
    from ape_cli.reports.pictures import Material

    data = own_dataset(run) if folder is None else open_dataset(folder)
    found = attention_maps(run, data, split, row, part)
    title = f"{run.name}: {part} attention on {data.name}, {split} row {row}"
    return Material(title, weights=found.weights, tokens=(found.queries, found.keys))


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
