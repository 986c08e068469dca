"""A trained model that predicts, from the folder that `ape export` writes. `ape_cli.load(DIR)` returns one.

Shapes: B rows, M target tokens, V ids (for images: classes), H x W pixels, C channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ape_cli.core.errors import UsageError, brief, pick, unknown
from ape_cli.core.vocabulary import EOS, FIRST_SYMBOL, PAD
from ape_cli.data.batches import Batch, SequenceBatch
from ape_cli.data.collation import PositionReading, Side, Window, collate
from ape_cli.data.image_batches import ImageBatch
from ape_cli.data.loader import Dataset, ImageSplit, Split
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.evaluate import misfit
from ape_cli.evaluation.metrics import written
from ape_cli.evaluation.sharing.exported import AGAIN, Exported, model_of, of_run, read_export
from ape_cli.experiment import Experiment
from ape_cli.experiment.generalisation import check_decoding
from ape_cli.experiment.reading import position_reading
from ape_cli.models.checkpoint import put_weights
from ape_cli.models.device import products, tune
from ape_cli.models.factory import check_installed, check_unchanged
from ape_cli.models.transformer import Model, SequenceModel, forward, to_device
from ape_cli.runs.record import DECODINGS
from ape_cli.runs.run import WEIGHTS, Run
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.tensors import load_tensors
from ape_cli.structure import Seq, parse_structure
from ape_cli.tasks import BaseTask


def load(folder: str | StoragePath | Run, device: str | torch.device = "cpu") -> TrainedModel:
    """Load a model from a folder written by `ape export`, from its address in an object store, or from a finished run.

    - `folder`: a path, `s3://…`, `gs://…`, or a run, such as `registry.open("results").find("copy-rope-42")`.
    - `device`: the device of the model.

    PyTorch is set to treat denormal numbers as zeros in this process, as in all commands.

    Raises `RunError` if a file is missing, damaged or altered, or if the model uses a scheme or attention of your own
    whose file is not on the Python path, or is not the file that an exported model was trained with. Raises
    `UsageError` if the run is not finished.

        from ape_cli import dataset, load

        model = load("tree-copy-model")  # ape export tree-copy --out tree-copy-model
        answers = model.predict(dataset.open("datasets/tree-copy-breadth-tiny").split("test"))
        print(answers[0])  # a list of symbols
    """
    tune()
    if isinstance(folder, Run):
        exported, model, vocabulary = of_run(folder)
    else:
        path, exported, vocabulary = read_export(folder)
        check_installed(exported.config)
        check_unchanged(exported.config, [exported.own_files, *exported.resumed_with][-1])
        model = model_of(exported.config, exported.dataset, vocabulary)
        put_weights(model, load_tensors(path / WEIGHTS, AGAIN)[0], path / WEIGHTS, AGAIN)
    return TrainedModel(model.to(device), exported, vocabulary)


class TrainedModel:
    """A model in evaluation mode, with its vocabulary and configuration. `load` returns one.

    - `module`: the `torch.nn.Module`: a `Transformer`, a `DecoderOnly` or, for images, a `Classifier`.
    - `config`: the configuration.
    - `vocabulary`: the name of each id, or of each class.
    - `about`: the content of config.json: dataset, scores of the run, versions and commit.
    """

    def __init__(self, module: Model, exported: Exported, vocabulary: list[str]) -> None:
        """Set the module to evaluation mode."""
        self.module, self.config, self.vocabulary = module.eval(), exported.config, vocabulary
        self.about = exported.model_dump(mode="json")
        self._trained = exported.dataset

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    @torch.no_grad()
    def logits(self, batch: Batch) -> Tensor:
        """The logits of each label, given the true preceding tokens. -> float [B, Q, V]; for images [B, 1, V]

        `batch`: a batch from `batches(split)`. Its `labels` are [B, Q].
        """
        _check(batch, (SequenceBatch, ImageBatch), "a batch from batches(split)")
        with products(self.config.precision):
            return forward(self.module, to_device(batch, self.module, self.device), self.config.precision)

    def batches(self, split: Split | ImageSplit, batch_size: int = 256) -> Iterator[Batch]:
        """The batches of a split, with positions as the model reads them. Rows are ordered by length.

        Raises `DataError` if the dataset does not fit the model.
        """
        options = self._experiment(split).batch_options()
        return iter(split.batches(batch_size, options=options))

    def predict(
        self,
        rows: Split | ImageSplit | Sequence[str | Sequence[str]] | np.ndarray | Tensor,
        *,
        max_tokens: int = 256,
        batch_size: int = 256,
    ) -> list[list[str]] | list[str]:
        """Predict the answer to each row by greedy decoding, in the order of the rows.

        `rows` is one of these:

        - A split of a dataset, of any structure: `dataset.open(DIR).split("test")`; `split[:1]` is its first row.
        - For models of words (structure `seq`): sources, each a list of symbols or a string of symbols separated by
          spaces. Answers are limited to `max_tokens` symbols, and to the positions of a map of positions. If targets
          are tags, answers are as long as their sources.
        - For models of images: pixels, uint8 [B, H, W, C].

        An answer is a list of symbols, or the name of a class for an image. For rows of a split, answers are limited to
        the length of the true target, and to the tags that it asks for. For trees and grids, an answer lists the symbol
        predicted at each position of the true target, with `<pad>` where there is none.

        Raises `UsageError` for rows that the model cannot read, `DataError` if the dataset does not fit the model, and
        `RunError` for trees of a task of your own whose file is missing, because only it says how they unfold.
        """
        if batch_size < 1:
            raise UsageError("bad batch_size", got=batch_size, allowed="1 or more", fix="leave `batch_size` out")
        if isinstance(rows, ImageSplit):
            names = {int(n): name for batch in self.batches(rows, batch_size) for n, name in self._classes(batch)}
            return [names[n] for n in sorted(names)]
        if isinstance(rows, np.ndarray | Tensor):
            pixels = self._pixels(rows)
            images = (_images(part, batch_size * i) for i, part in enumerate(pixels.split(batch_size)))
            return [name for batch in images for _, name in self._classes(batch)]
        if isinstance(rows, Split):
            experiment = self._experiment(rows)
            task, reading = evaluate.how_to_write(experiment)
            return self._written(rows.batches(batch_size, options=experiment.batch_options()), task, reading)
        _check(rows, Iterable, 'a split: dataset.open(DIR).split("test"); a list of sources; pixels')
        return self._of_words(rows, max_tokens, batch_size)

    def evaluate(
        self, data: Dataset, split: str = "test", decode: str = "teacher", batch_size: int = 256
    ) -> dict[str, Any]:
        """The scores on a split of a dataset, as in `ape eval`. Nothing is stored.

        -> `overall`, `by_size`, and `by_op`, or `by_class` for images.

        `decode`: `teacher` or `greedy`. Raises `DataError` if the dataset does not fit the model, and `UsageError` if
        the decoding does not apply to it.
        """
        _check(data, Dataset, 'a dataset: evaluate(dataset.open(DIR), "test")')
        pick("decoding", decode, DECODINGS)
        check_decoding(data, decode)
        part = data.split(split)
        return evaluate.scores(self.module, self._experiment(part), part, decode=decode, batch_size=batch_size)

    def _experiment(self, split: Split | ImageSplit) -> Experiment:
        """The experiment of the model on the dataset of a split. Raises `DataError` if it does not fit the model."""
        _check(split, (Split, ImageSplit), 'a split: dataset.open(DIR).split("test")')
        data = Dataset(split.folder, split.manifest)
        if reason := misfit(self._trained, self.vocabulary, data):
            raise reason
        return Experiment(self.config, data)

    def _of_words(self, rows: Sequence[str | Sequence[str]], max_tokens: int, batch_size: int) -> list[list[str]]:
        """The answers to sources of words, as `predict` describes them."""
        data = self._trained
        structure = parse_structure(data.structure)
        if structure != Seq() or data.image:
            fix = "give pixels, uint8 [B, H, W, C]" if data.image else "give rows of a dataset: split[:1]"
            raise UsageError("a list of texts has no positions", got=f"a model of structure {structure}", fix=fix)
        if isinstance(rows, str):
            raise UsageError("one text is not a list of sources", got=brief(rows), fix=f"predict([{brief(rows)}])")
        if max_tokens < 1:
            raise UsageError("bad max_tokens", got=max_tokens, allowed="1 or more", fix="leave `max_tokens` out")
        reading = position_reading(self.config, structure, tagged=data.tagged, causal=data.causal)
        window = _window([self._ids(row) for row in rows], max_tokens, reading)
        batches = (collate(window, part, reading) for part in window.batches(batch_size, None))
        return self._written(batches, None, reading)

    def _ids(self, row: str | Sequence[str]) -> np.ndarray:
        """The ids of the symbols of a source, uint16 [N]. Raises `UsageError` for an unknown symbol."""
        ids = {name: number for number, name in enumerate(self.vocabulary) if number >= FIRST_SYMBOL}
        _check(row, Iterable, "a source: a list of symbols, or symbols separated by spaces")
        words = row.split() if isinstance(row, str) else list(row)
        for word in words:
            if word not in ids:
                raise unknown("symbol", str(word), ids)
        return np.array([ids[word] for word in words], dtype=np.uint16)

    def _written(
        self, batches: Iterable[SequenceBatch], task: BaseTask | None, reading: PositionReading
    ) -> list[list[str]]:
        """What the model writes for each row, in the order of the rows."""
        assert isinstance(self.module, SequenceModel)
        answers: dict[int, list[str]] = {}
        for batch, ids in written(self.module, batches, self.device, self.config.precision, task, reading):
            for n, row, mask in zip(batch.row, ids.cpu(), batch.label_mask.cpu(), strict=True):
                answer = row[mask].tolist()
                if reading.data == Seq() and not reading.tagged:
                    answer = [i for i in answer[: answer.index(EOS) if EOS in answer else None] if i != PAD]
                answers[int(n)] = [self.vocabulary[i] for i in answer]
        return [answers[n] for n in sorted(answers)]

    def _pixels(self, rows: np.ndarray | Tensor) -> Tensor:
        """Images as a tensor, uint8 [B, H, W, C]. Raises `UsageError` if the model cannot read them."""
        size = self._trained.image
        pixels = torch.as_tensor(rows)
        if size is None or pixels.dtype != torch.uint8 or list(pixels.shape[1:]) != list(size):
            allowed = "a split of a dataset, or a list of sources" if size is None else f"uint8 {['B', *size]}"
            got = f"{pixels.dtype} {[*pixels.shape]}"
            raise UsageError("the model cannot read these rows", got=got, allowed=allowed)
        return pixels

    def _classes(self, batch: Batch) -> Iterator[tuple[int, str]]:
        """The row and the name of the predicted class of each image."""
        best = self.logits(batch)[:, 0].argmax(-1).tolist()
        return ((int(n), self.vocabulary[i]) for n, i in zip(batch.row, best, strict=True))


def _check(value: object, expected: type | tuple[type, ...], allowed: str) -> None:
    """Raise `UsageError` for an argument of another type than expected."""
    if not isinstance(value, expected):
        raise UsageError("the model cannot read this argument", got=type(value).__name__, allowed=allowed)


def _window(ids: list[np.ndarray], max_tokens: int, reading: PositionReading) -> Window:
    """The window of sources, uint16 [N] each, whose answers have `max_tokens` places, or a place for each tag.

    They have fewer places if the map of positions has fewer.
    """

    def side(parts: list[np.ndarray]) -> Side:
        flat = np.concatenate([np.empty(0, np.uint16), *parts])
        return Side(np.cumsum([0, *map(len, parts)]), flat, np.zeros(len(flat), np.uint64))

    count = len(ids)
    size = np.array([len(row) for row in ids], dtype=np.int64)
    room = None if reading.positions is None else reading.positions.room(size + 1)
    answer_sizes = np.full(count, max_tokens) if room is None else np.minimum(room, max_tokens)
    # `collate` adds the place of EOS
    answers = [np.full(tokens - 1, FIRST_SYMBOL, np.uint16) for tokens in answer_sizes]
    return Window(np.arange(count), size, np.full(count, -1), side(ids), side(ids if reading.tagged else answers))


def _images(pixels: Tensor, first: int) -> ImageBatch:
    """A batch of images without labels. uint8 [B, H, W, C]; `first`: the number of the first row"""
    count = len(pixels)
    labels = torch.full((count, 1), ImageBatch.ignore_index)
    return ImageBatch(pixels, labels, first + np.arange(count), np.zeros(count, np.int64), np.full(count, -1))
