"""What a user asks for: the fields of one experiment, how layers of them are merged, and the configuration they give.

A TOML file has these fields (`experiment/spec_files.py`), the options of `ape train` are a part of them, a `run.json`
gives them, and a sweep lists several values of each (`sweep/specification.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from ape_cli import attention, position
from ape_cli.core import part_options
from ape_cli.core.errors import CombinationError, UsageError, brief, pick, unknown
from ape_cli.core.numbers import whole_numbers
from ape_cli.core.validation import Checked, Whole
from ape_cli.data import position_maps
from ape_cli.data.loader import Dataset
from ape_cli.runs.config import KINDS, MODELS, PRECISIONS, Config, preset, settable
from ape_cli.runs.record import DECODINGS, DatasetRecord
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure.linearisation import NAMES

AUTO = "auto"  # the word for `MULTIPLES` of the largest training size
# names that an option of a part cannot have: those of settings, of an option and of arguments of `position.make`
_TAKEN = frozenset({"device", "name", "generator"}.union(*(model.model_fields for model in KINDS.values())))
_PARTS: dict[str, Callable[[str], dict[str, Any]]] = {  # fields that name a part, and the options of such a part
    "scheme": position.options,
    "attention": attention.options,
    "positions": position_maps.options,
}
_SHAPING = (*_PARTS, "structure", "model")
_OF_SHAPE, _OF_DATA = {"max_size", "decay"}, {"max_size", "augment"}  # the settings that follow from `_SHAPING`, data
_REPLACES = {  # a field or setting, and those of the layers below that it replaces
    "data": ("task", "tasks", "suite", "order", "orders", "sizes", "rows", "recorded"),
    "task": ("data", "recorded"),
    "tasks": ("data", "suite"),
    "suite": ("data", "tasks"),
    "epochs": ("steps",),
    "steps": ("epochs",),
    "validate_every_epochs": ("validate_every_steps",),
    "validate_every_steps": ("validate_every_epochs",),
    "d_ff": ("d_ff_decoder",),
}


def default_preset(device: str) -> str:
    """The preset of experiments that name none, on a type of device."""
    return "paper" if device == "cuda" else "small"


def _size_text(sizes: Any) -> Any:
    """Sizes as text. A file may list them."""
    return ",".join(map(str, sizes)) if isinstance(sizes, list) else sizes


@dataclass(frozen=True)
class ExtraEvaluations:
    """What a run is evaluated on once it is trained, in addition to its test split with teacher forcing.

    generalise: the sizes of other test rows. True stands for `MULTIPLES` of the largest training size, False for none.
    decode: with `greedy`, all test rows are also decoded greedily.

    Raises `UsageError` for an unknown decoding.
    """

    generalise: bool | tuple[int, ...] = False
    decode: str = DECODINGS[0]

    def __post_init__(self) -> None:
        """Check the decoding."""
        pick("decoding", self.decode, DECODINGS)

    def decodings(self, data: Dataset) -> tuple[str, ...]:
        """The decodings in which a run on the data is evaluated. Images have no greedy decoding."""
        both = self.decode != DECODINGS[0] and data.image is None
        return DECODINGS if both else DECODINGS[:1]


NO_EXTRA_EVALUATIONS = ExtraEvaluations()  # only the test split, with teacher forcing


def parse(sizes: bool | str | Sequence[int] | None) -> bool | tuple[int, ...]:
    """The sizes of `ExtraEvaluations` from an option or a file: `30,50-60`, a list, `auto` or true.

    None and `none` stand for no sizes. Raises `UsageError` if they are not valid.

    >>> parse("30,50-52"), parse([2, 1]), parse("auto"), parse(None)
    ((30, 50, 51, 52), (1, 2), True, False)
    """
    if sizes is None or isinstance(sizes, bool) or sizes in (AUTO, "none"):
        return sizes in (True, AUTO)
    numbers = whole_numbers("generalise", sizes) if isinstance(sizes, str) else sizes
    if not numbers or not all(type(size) is int and 0 <= size < 2**16 for size in numbers):
        allowed = f"sizes such as 30,50-60 (whole numbers), or {AUTO} for multiples of the largest training size"
        raise UsageError("bad `generalise`", got=brief(sizes), allowed=allowed, fix="`generalise=30,50,100`")
    return tuple(sorted(set(numbers)))


Folder = Annotated[StoragePath, BeforeValidator(lambda path: storage_path(path) if isinstance(path, str) else path)]
Sizes = Annotated[str | None, BeforeValidator(_size_text)]  # a file may also list them
Rows = Annotated[int | None, Field(gt=0)]  # of the training split
Generalise = Annotated[bool | tuple[int, ...], BeforeValidator(parse)]  # a file may give text or a list


class ExperimentSpec(Checked):
    """The fields of one experiment. A part of them is a layer: `model_fields_set` are those that it gives.

    The dataset is `data`; or that of `task`, which may have options, as in `modular kind=parity` (with its
    linearisation `order`), at the sizes of the preset, or at `sizes`, and with its rows, or `rows` for training; or
    `recorded`, that of a run; or else the newest one that the scheme can read. `settings`, which a file calls `set`,
    maps fields of the configuration, and options of the scheme, of the attention or of the map of positions, to values.
    Of these, `derived` were not asked for: a run recorded what followed from its parts.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    scheme: str = Field(default="", examples=["rope"])
    task: str | None = None
    sizes: Sizes = None
    rows: Rows = None
    data: Folder | None = Field(default=None, examples=["copy-small"])
    order: str | None = Field(default=None, examples=["depth"])
    seed: Whole = 42
    structure: str | None = Field(default=None, examples=["seq*tree(2)"])
    attention: str = "dot"
    positions: str = position_maps.PLAIN
    model: str = MODELS[0]
    preset: str = Field(default_factory=lambda: default_preset("cpu"), examples=["small"])
    precision: str = PRECISIONS[0]
    settings: Mapping[str, Any] = Field(default={}, alias="set", examples=[{"lr_peak": 1e-3}])
    generalise: Generalise = False
    decode: str = "teacher"
    recorded: DatasetRecord | None = None
    derived: frozenset[str] = frozenset()

    @property
    def tests(self) -> ExtraEvaluations:
        """The evaluations after training. Raises `UsageError` for an unknown decoding."""
        return ExtraEvaluations(self.generalise, self.decode)

    def check(self) -> None:
        """Raise `UsageError` if no scheme is named, or if fields do not fit together."""
        if not self.scheme:
            fix = "for example `scheme=rope`; `ape schemes` lists all"
            raise UsageError("no scheme is named", got="neither an option nor a field", fix=fix)
        if self.data is not None and (self.task is not None or self.order is not None):
            what, got = "`data` already names a dataset", "`data` with a task or an order"
            raise UsageError(what, got=got, fix="use one of them")
        for name, value in (("sizes", self.sizes), ("rows", self.rows)):
            if value is not None and self.task is None:
                raise UsageError(f"`{name}` needs a task", got=f"{name} {value}", fix="name one with `task`")
        if self.order is not None:
            pick("order", self.order, NAMES)

    def with_scheme(self, scheme: str) -> ExperimentSpec:
        """The same model with another scheme. The scheme `none` has no positions, so their map is left out too."""
        positions = position_maps.PLAIN if scheme == "none" else self.positions
        return merge(self, ExperimentSpec(scheme=scheme, positions=positions))

    def config(self, modality: str) -> Config:
        """The configuration for data of a modality, `sequence` or `image`, which also decides the model.

        Raises `UsageError` if a name is unknown, a value is invalid, or two settings exclude each other.
        """
        settings, options = self._by_part(modality)
        fields = overlaid(preset(self.preset).of(modality), settings)
        for first, second in (("epochs", "steps"), ("validate_every_epochs", "validate_every_steps")):
            if first in fields and second in fields:
                what = f"{first} and {second} exclude each other"
                raise UsageError(what, got="both", allowed="one of them", fix="set one only")
        fields["structure"] = self.structure  # an expression is parsed by the field
        fields["precision"] = self.precision
        if modality == "sequence":
            fields["model"] = self.model
        elif self.model != MODELS[0]:
            what, got = "images have no target sequence for a decoder to write", f"`model={self.model}`, for images"
            raise CombinationError(what, got=got, fix="leave `model` out, or choose other data")
        try:
            return KINDS[modality](
                preset=self.preset,
                scheme=self.scheme,
                scheme_options=options["scheme"],
                attention=self.attention,
                attention_options=options["attention"],
                positions=self.positions,
                positions_options=options["positions"],
                seed=self.seed,
                **fields,
            )
        except ValidationError as error:
            defaults = {name: field.default for name, field in KINDS[modality].model_fields.items()}
            raise bad_value(error, defaults | preset(self.preset).of(modality)) from error

    def _by_part(self, modality: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The settings that are fields of the configuration, and those that are options of each part, checked."""
        options = {part: options_of(getattr(self, part)) for part, options_of in _PARTS.items()}
        for part, names in options.items():
            if taken := _TAKEN.intersection(names):
                what = f"an option of {part} {getattr(self, part)} has the name of a setting"
                raise UsageError(what, got=min(taken), fix="rename it in the file of this part")
        fields: dict[str, Any] = {}
        chosen: dict[str, dict[str, Any]] = {part: {} for part in _PARTS}
        allowed = settable(modality)
        for key, given in self.settings.items():
            value, parts = part_options.unsigned(given), [part for part in _PARTS if key in options[part]]
            if key in allowed:
                fields[key] = value
            elif len(parts) > 1:
                what = f"{key} is an option of {' and of '.join(f'{part} {getattr(self, part)}' for part in parts)}"
                raise UsageError(what, got=f"{key}={value}", fix="rename it in one of the files")
            elif parts:
                value = part_options.checked(key, value, options[parts[0]])
                chosen[parts[0]][key] = to_jsonable_python(value)
            else:
                raise unknown("setting", key, {*allowed}.union(*options.values()))
        return fields, chosen


def bad_value(error: ValidationError, examples: Mapping[str, Any]) -> UsageError:
    """The error for a value that a field does not take. `examples` has values that fields do take."""
    first = error.errors()[0]
    if isinstance(cause := first.get("ctx", {}).get("error"), UsageError):  # of a field's own check: it says more
        return cause
    field, *inner = map(str, first["loc"])
    example = examples[field]
    return UsageError(
        f"bad value of {'.'.join([field, *inner])}",
        got=brief(first.get("input")),
        allowed=first["msg"].removeprefix("Input should be "),
        fix=f"`{field}=VALUE`" if example is None else f"for example `{field}={example}`",
    )


def of_config(config: Config, recorded: DatasetRecord | None = None, variant: Collection[str] = ()) -> ExperimentSpec:
    """The experiment of a configuration, on the dataset that its run recorded, with the names of its `variant`."""
    settings = {name: value for name in settable(config.modality) if (value := getattr(config, name)) is not None}
    return ExperimentSpec(
        **{name: getattr(config, name) for name in ("preset", "scheme", "attention", "positions", "seed", "precision")},
        model=getattr(config, "model", MODELS[0]),
        structure=None if config.structure is None else config.structure.expression,
        set=settings | config.scheme_options | config.attention_options | config.positions_options,
        recorded=recorded,
        derived=frozenset(settings.keys() & (_OF_DATA.difference(variant) | {"decay"})),
    )


Layer = TypeVar("Layer", bound=BaseModel)


def merge(*layers: Layer) -> Layer:
    """The fields of all layers: what a layer gives replaces what the layers to its left give.

    The same holds for each setting. A field or setting also replaces those that it excludes, such as `steps` and
    `epochs`. Where a layer names another scheme, attention or map of positions, the settings of the replaced one go,
    and with them the structure that a replaced scheme reads. The layers of a sweep name several of each.
    """
    merged = layers[0]
    for layer in layers[1:]:
        merged = _under(merged, layer)
    return merged


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The fields or settings of both. Those of `above` replace the same ones of `below`, and those that they exclude.

    >>> overlaid({"steps": 800, "heads": 4}, {"epochs": 3})
    {'heads': 4, 'epochs': 3}
    """
    replaced = {name for key in above for name in _REPLACES.get(key, ())}
    return {key: value for key, value in below.items() if key not in replaced} | dict(above)


def _under(below: Layer, above: Layer) -> Layer:
    """Two layers as one."""
    lower, upper = ({name: getattr(layer, name) for name in layer.model_fields_set} for layer in (below, above))
    settings, new = dict(lower.get("settings", {})), upper.get("settings", {})
    for part, options_of in _PARTS.items():
        field = part if part in type(below).model_fields else f"{part}s"  # a sweep lists several
        if field not in upper:
            continue
        before, after = _names(getattr(below, field)), _names(upper[field])
        if not (replaced := before - after):
            continue
        gone = {key for name in replaced for key in options_of(name)}
        gone -= {key for name in before & after for key in options_of(name)}
        if part == "scheme":
            gone |= set() if before & after else {"max_size"}
            lower = {key: value for key, value in lower.items() if key not in ("structure", "structures")}
        settings = {key: value for key, value in settings.items() if key not in gone}
    fields = overlaid(lower, upper)
    if isinstance(below, ExperimentSpec) and below.derived:
        mapped = position_maps.options(fields.get("positions", position_maps.PLAIN)).keys() & new.keys()
        shaped = mapped or any(name in upper and upper[name] != getattr(below, name) for name in _SHAPING)
        on_other_data = below.recorded is not None and not upper.keys().isdisjoint(("data", "task"))
        stale = (_OF_SHAPE if shaped else set()) | (_OF_DATA if on_other_data else set())
        settings = {key: value for key, value in settings.items() if key not in stale & below.derived}
        fields["derived"] = below.derived & settings.keys() - new.keys()
    fields["settings"] = overlaid(settings, new)
    if lower.get("tune") and upper.get("tune"):
        fields["tune"] = merge(lower["tune"], upper["tune"])
    return type(below).model_construct().model_copy(update=fields)


def _names(value: str | list[str]) -> set[str]:
    """The names in a field that is one name or several."""
    return {value} - {""} if isinstance(value, str) else set(value)


def validated(model: type[Layer], fields: dict[str, Any], what: str) -> Layer:
    """The fields of a table in a TOML file, called `what`. Raises `UsageError` that names the invalid field."""
    names = fields_of(model)
    for key in fields:
        pick(f"field of {what}", key, names)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        examples = {key: field.examples[0] if field.examples else field.default for key, field in names.items()}
        raise bad_value(error, examples) from error


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a table, by the names that they have in a file."""
    return {
        field.alias or name: field for name, field in model.model_fields.items() if name not in ("recorded", "derived")
    }
