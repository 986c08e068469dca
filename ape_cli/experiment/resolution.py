"""An experiment: a complete configuration, its dataset, and how the model reads it."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import torch

from ape_cli import attention, position, tasks
from ape_cli.attention import AttentionType
from ape_cli.core.errors import CombinationError, UsageError
from ape_cli.core.user_parts import check_once
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import augmentation, position_maps
from ape_cli.data.collation import PositionReading
from ape_cli.data.loader import BatchOptions, Dataset, Split, size_key
from ape_cli.experiment.choice import generated, task_and_options
from ape_cli.experiment.generalisation import check_decoding
from ape_cli.experiment.reading import (
    UnreadableError,
    augmented,
    check_greatest,
    check_map,
    position_reading,
    structure_for,
    tokenising,
)
from ape_cli.experiment.spec import ExperimentSpec
from ape_cli.position import Scheme
from ape_cli.runs.config import KINDS, Config, ImageConfig, SequenceConfig, preset
from ape_cli.structure import Structure, left_out

logger = logging.getLogger(__name__)


IMPOSSIBLE = (UnreadableError, CombinationError)  # this cannot be trained


@dataclass(frozen=True)
class Experiment:
    """What one run trains. `of` and `resolve` make one.

    `config` is complete, except that the size of a bounded scheme may be missing as long as the dataset is.
    """

    config: Config
    data: Dataset

    @cached_property
    def reading(self) -> PositionReading:
        """How the model reads the positions of the dataset. Raises the errors of `position_reading`."""
        plan = self.data.plan
        return position_reading(self.config, plan.structure, tagged=bool(plan.tagged), causal=bool(plan.causal))

    @cached_property
    def variant(self) -> dict[str, Any]:
        """The fields and options that differ from the defaults of the preset and the scheme.

        The kind of attention is among them, and so is the locality bias that it turned off.
        """
        config = self.config
        kept = {name: getattr(config, name) for name in ("preset", "scheme", "seed", "model") if hasattr(config, name)}
        plain = type(config)(
            **kept, **preset(config.preset).of(config.modality), decay=float(position.load(config.scheme).default_decay)
        )
        if isinstance(plain, ImageConfig):
            plain = plain.model_copy(update={"augment": augmented(plain, self.data.parameters)})
        complete_plain = _sized(plain, self.data).model_dump()
        fields, options = self.config.model_dump(), {"scheme_options", "attention_options", "positions_options"}
        changed = {k: fields[k] for k, v in complete_plain.items() if k not in options and fields[k] != v}
        changed |= {"model": "decoder"} if self.config.decoder_only else {}
        if self.config.positions != position_maps.PLAIN:
            unsized = self.config.model_copy(update={"max_size": None})
            if _sized(unsized, self.data).max_size == self.config.max_size:  # the map decided it
                changed.pop("max_size", None)
            changed |= self.config.positions_options
        if "d_ff_decoder" in changed:  # None stands for `d_ff`
            changed["d_ff_decoder"] = self.config.feed_forward_widths[-1]
        return changed | self.config.scheme_options | self.config.attention_options

    @property
    def ambiguity(self) -> str | None:
        """Why tokens of a row can have equal positions: parts of a product are left out. None if they cannot."""
        structure = self.reading.structure
        if not (missing := left_out(structure, self.data.structure)):
            return None
        left = ", ".join(factor.expression for factor in missing)
        what = f"{self.config.scheme} reads {structure} of {self.data.structure}, without {left}"
        return f"{what}: positions are not unique"

    @property
    def is_sized(self) -> bool:
        """Whether the size of the scheme is known, if it is bounded by one."""
        return self.config.max_size is not None or not position.load(self.config.scheme).bounded

    @property
    def is_named(self) -> bool:
        """Whether everything is known that the name of the run depends on."""
        return bool(self.data.fingerprint) and self.is_sized

    def batch_options(self, *, training: bool = False) -> BatchOptions:
        """How a split of the data makes the batches that the model reads."""
        if isinstance(self.config, ImageConfig):
            return BatchOptions(augment=augmentation.parse(self.config.augment or "none") if training else ())
        reading = self.reading
        return BatchOptions(reading.structure, reading.decoder_only, reading.positions)


def of(config: Config, data: Dataset) -> Experiment:
    """The experiment of a configuration, which need not be complete, on a dataset. Raises the errors of `complete`."""
    return Experiment(complete(config, data), data)


def resolve(request: ExperimentSpec, data: Dataset) -> Experiment:
    """The experiment that a request describes on its dataset (`find_dataset`). Nothing is generated.

    Raises `ApeError` if options are not valid, do not fit together or do not fit the dataset.
    """
    for decode in request.tests.decodings(data):
        check_decoding(data, decode)
    return of(request.config(data.modality), data)


def prepared(experiment: Experiment) -> Experiment:
    """The experiment with its dataset, which is generated if it is missing, and with the size of its scheme.

    Raises `DataError` if it cannot be generated, or is damaged, and `UsageError` if the map of positions has none for a
    token, or positions that the scheme does not take.
    """
    data = generated(experiment.data)
    if (positions := experiment.reading.positions) is not None:
        for split in map(data.split, SPLITS):
            assert isinstance(split, Split)
            split.check_positions(positions)
    return replace(experiment, config=_sized(experiment.config, data))


def default_settings(spec: ExperimentSpec) -> list[dict[str, Any]]:
    """The values of all settings of a spec, with its defaults, for each modality that its data may have.

    Settings that depend on the data have no value. Modalities for which the spec is not valid are left out: an error is
    raised when it is resolved.
    """
    settings = []
    task = None if spec.task is None else tasks.load(task_and_options(spec.task)[0])
    for modality in KINDS if task is None else (task.modality,):
        with suppress(UsageError):
            config = spec.config(modality)
            options = position_maps.options(spec.positions) | attention.options(spec.attention)
            options |= position.options(spec.scheme)
            settings.append(options | config.model_dump() | {"decay": locality(config)})
    return settings


def locality(config: Config) -> float:
    """The locality bias of a configuration. Raises `UsageError` if its scheme does not fit its attention.

    This needs no data, so it can be checked before there is any.
    """
    scheme, attention_type = position.load(config.scheme), make_attention(config)
    default = 1.0 if attention_type.refuses_decay else scheme.default_decay
    rate = float(default if config.decay is None else config.decay)
    attention.check(attention_type, scheme, rate)
    if config.decoder_only:
        attention.check_without_encoder(attention_type, scheme)
    else:
        attention.check_role(scheme, "encoder", images=isinstance(config, ImageConfig))
    return rate


def complete(config: Config, data: Dataset) -> Config:
    """The configuration with the fields filled in that depend on scheme, attention and data.

    A bounded scheme is made for the largest size of the training split, so that nothing that the model trains on is
    cut. (The preprint's appendix B takes the mean of the distribution, and the published paper about the maximum, as
    here.) With a map of positions, it is made for the greatest position that the map gives to these rows. The size is
    None if the training split does not exist yet, and no run tells it. A kind of attention that takes no locality bias
    gets none.

    Raises `UsageError` if the configuration is for data of another kind, asks for a locality bias that the attention
    does not take, for a size although the scheme is not bounded, or for anything else that would have no effect; and
    the errors of `structure_for` and `check_map`.
    """
    if config.modality != data.modality:
        what = f"the configuration is for {config.modality}s"
        raise UsageError(what, got=f"data of {data.modality}s", fix="resolve it for the kind of the data")
    structure = structure_for(config.scheme, data.structure, config.structure)
    is_default = config.structure is None or structure == structure_for(config.scheme, data.structure)
    if config.max_size is not None and not position.load(config.scheme).bounded:
        what, got = f"{config.scheme} is not bounded by a size", f"max_size={config.max_size}"
        raise UsageError(what, got=got, fix="leave max_size out")
    if not config.warmup and config.lr_initial != type(config).model_fields["lr_initial"].default:
        got = f"lr_initial={config.lr_initial:g}, warmup=0"
        raise CombinationError("lr_initial has no effect without a warm-up", got=got, fix="leave lr_initial out")
    decay = locality(config)
    check_map(config, data.structure, data.vocabulary, decay)
    fields: dict[str, Any] = {"structure": None if is_default else structure, "decay": decay}
    if isinstance(config, SequenceConfig):
        _check_effect(config, causal=bool(data.plan.causal))
    else:
        assert isinstance(config, ImageConfig)
        fields["augment"] = augmented(config, data.parameters)
    return _sized(config.model_copy(update=fields), data)


def _sized(config: Config, data: Dataset) -> Config:
    """The configuration with the size of its scheme, if that is bounded, as `complete` describes it.

    Raises `UsageError` if images become a single token, or if the scheme does not take the positions of a map.
    """
    bounded = position.load(config.scheme).bounded
    if isinstance(config, ImageConfig):
        assert data.image is not None
        size: int | None = math.prod(tokenising(config).grid(*data.image[:2]))
    elif not bounded and config.positions == position_maps.PLAIN:
        size = None
    else:
        reading = position_reading(config, data.structure)
        structure, positions, size = reading.structure, reading.positions, config.max_size
        if positions is not None or (bounded and size is None):
            if data.missing:
                largest = data.sizes.get(size_key(structure, decoder_only=reading.continues))
            else:
                largest = data.largest(structure, decoder_only=reading.continues)
            size = None if largest is None else max(1, largest)
            if size is not None and positions is not None:
                size = positions.sampler.greatest(size)
                check_greatest(config, structure, size)
    return config.model_copy(update={"max_size": (config.max_size or size) if bounded else None})


def _check_effect(config: SequenceConfig, *, causal: bool) -> None:
    """Check that some settings have an effect. `causal`: whether the data has causal tags.

    Raises `UsageError` if one has none.
    """
    idle = position.load(config.scheme).encoder_decoder_options if config.decoder_only else ()
    for name in (name for name in config.scheme_options if name in idle):
        what = f"{name} of {config.scheme} has no effect in a decoder-only model"
        raise CombinationError(what, got=f"{name}={config.scheme_options[name]}", fix=f"leave {name} out")
    if config.positions_scale != 1.0 and not position.load(config.scheme).overrides("embed"):
        raise UsageError(
            f"{config.scheme} adds nothing to the embeddings",
            got=f"positions_scale={config.positions_scale:g}",
            fix="leave positions_scale out, or choose an additive scheme (`ape schemes`)",
        )
    if config.d_ff_decoder is not None and not config.encoder_layers:
        raise UsageError(
            "d_ff has no effect without encoder layers",
            got=f"d_ff={config.d_ff}, d_ff_decoder={config.d_ff_decoder}, encoder_layers=0",
            fix=f"set only `d_ff={config.d_ff_decoder}`, which then is the width of the decoder's layers",
        )
    if config.memory != "all" and (config.decoder_only or causal or not config.encoder_layers):
        why = "`model=decoder`" if config.decoder_only else "causal tags" if causal else "encoder_layers=0"
        what = f"memory={config.memory} has no effect, because no encoder reads the source"
        raise CombinationError(what, got=why, allowed="memory=all", fix="leave memory out")
    if config.dropout_places != "all" and not config.dropout:
        raise UsageError(
            "there is no dropout to place", got=f"dropout_places={config.dropout_places}", fix="`dropout=0.15`"
        )


def make_scheme(config: Config, read: Structure, generator: torch.Generator | None = None) -> Scheme:
    """The scheme of a complete configuration, which reads positions as `read`, with the weights of its seed.

    `generator`: that of the model, which draws the scheme's weights first; None for a new one. Raises `ApeError` for a
    scheme of a user whose hooks fail, or return wrong shapes.
    """
    scheme = position.make(
        config.scheme,
        d_model=config.d_model,
        heads=config.heads,
        structure=read.algebra,
        max_size=config.max_size or 1,
        decay=config.decay,
        generator=generator or torch.Generator().manual_seed(config.seed),
        **config.scheme_options,
    )
    position.check_hooks(scheme)
    _warn_if_idle(config.scheme)
    return scheme


def make_attention(config: Config) -> AttentionType:
    """The kind of attention of a configuration. Raises `ApeError` for a user's own kind that breaks a rule."""
    attention_type = attention.make(config.attention, **config.attention_options)
    with torch.random.fork_rng(devices=[]):
        check_once(attention_type, attention.RULES, config.attention_options)
    return attention_type


@cache
def _warn_if_idle(scheme: str) -> None:
    """Warn once if a scheme overrides no hook."""
    if idle := position.without_hooks(position.load(scheme)):
        logger.warning(f"{idle.summary}: {idle.fix}")
