"""Collation: rows of a window become one padded batch, with positions read as a structure.

Shapes: B rows of a batch, R rows of a window, T tokens of all rows of a window, L tokens of the longest row, Q labels,
C coordinates of a position. Ids and positions of a batch are int64, masks are bool (True = token).

Teacher forcing: the decoder reads SOS and the target without its last token, and its labels are the target. Data of
structure `seq` has an EOS token in source and target. All other data has none, because the end follows from the
structure.

Tags: if the target has one tag for each token of the source, the decoder reads the source itself, and its label at each
token is the tag of this token. So it never reads an answer. Tags have no EOS. A tag that is PAD is not asked for.
If every row asks for fewer tags than the longest row has tokens, a batch has only these labels, and their places.
If tags are causal, models read the source only here, from left to right: what they read before it is an EOS.

Positions:

- SOS and padding have 0 in every coordinate.
- Tokens of a sequence have 1, 2, ... The same holds for coordinates along the linearisation, as which schemes for
  sequences read a tree (paper, section 4.1: the flat baselines).
- Other coordinates are the stored values plus the structure's `first`: a heap index is taken as it is, and a row, a
  column or a place of a ring is counted from 1.
- If every coordinate is along the linearisation, positions are the same in all rows. Then they have one row, [1, L],
  whatever is padding, and broadcast.
- For a decoder-only model, each target follows directly after its source, and coordinates along the linearisation
  continue: SOS has the position after that of the source's last token. Other coordinates stay the same.
- A map (`position_maps/`) may give each row other positions along the linearisation. Then all rows have their own.

Processes that train together make the same batches, and each takes its own share of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import torch

from ape_cli.core import ragged
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.batches import WHOLE, DecoderOnlyBatch, Padding, SequenceBatch, Share, exact_length, own_rows
from ape_cli.data.position_maps import RowPositions
from ape_cli.storage import sequence_rows
from ape_cli.structure import LINE, Seq, Structure, Tree, columns


@dataclass(frozen=True)
class PositionReading:
    """The structure as which a model reads the positions of a dataset. `of` makes one."""

    data: Structure  # structure of the data
    structure: Structure  # as which it is read
    columns: tuple[int, ...]  # for each coordinate that is read: the index of the data's coordinate, or LINE
    tagged: bool = False  # whether the target has a tag for each token of the source
    causal: bool = False  # whether each tag is predicted from the tokens up to it
    decoder_only: bool = False  # whether the target continues the sequence of the source
    positions: RowPositions | None = None  # the map of positions; None for the plain one

    @classmethod
    def of(
        cls,
        data: Structure,
        structure: Structure | None = None,
        *,
        tagged: bool = False,
        causal: bool = False,
        decoder_only: bool = False,
        positions: RowPositions | None = None,
    ) -> PositionReading:
        """Read the positions of data as a structure, by default as the data's own. For the others see the class.

        Raises `UsageError` if the data has no positions of the structure, or if the map does not act on them.
        """
        structure = data if structure is None else structure
        indices = columns(structure, data)
        if indices is None:
            what, got = f"this dataset has no positions of structure {structure.expression}", data.expression
            allowed = f"the factors of {got}; line (seq) and cyclic(n) along its linearisation; products"
            raise UsageError(what, got=f"structure {got}", allowed=allowed, fix="leave `structure` out")
        # the positions of a sequence are those along the line, where EOS has a position too
        taken = tuple(LINE if data == Seq() else column for column in indices)
        reading = cls(data, structure, taken, tagged, causal, decoder_only, positions)
        if positions is not None and not reading.is_line:
            what = "a map of positions acts on the place of a token along the linearisation"
            raise UsageError(what, got=f"structure {structure.expression}", fix="leave `positions` out")
        return reading

    def of_epoch(self, epoch: int) -> PositionReading:
        """The same with the positions that the map draws in an epoch of the training."""
        return self if self.positions is None else replace(self, positions=self.positions.of_epoch(epoch))

    @property
    def is_line(self) -> bool:
        """Whether every coordinate is along the linearisation, so that no stored positions are needed."""
        return set(self.columns) == {LINE}

    @property
    def continues(self) -> bool:
        """Whether positions along the linearisation continue from the source to the target."""
        return self.decoder_only and not (self.positions is not None and self.positions.sampler.restarts)

    def positions_of(self, stored: I64 | None, mask: np.ndarray, before: I64 | None = None) -> I64:
        """The positions of tokens, int64 [B or 1, L] or [B or 1, L, C].

        `stored` are the data's own positions, int64 [B, L] or [B, L, C]; `mask` is bool [B, L]. `before`: the number of
        tokens before them in each row's sequence, int64 [B]; None for none.
        """
        line = np.arange(1, mask.shape[1] + 1)[None]
        line = line if before is None else line + before[:, None]
        if self.is_line:
            coordinates = [line] * len(self.columns)
        else:
            assert stored is not None
            of_data = stored.reshape(*mask.shape, self.data.width)
            firsts = zip(self.columns, self.structure.first, strict=True)
            coordinates = [np.where(mask, line if c == LINE else of_data[..., c] + first, 0) for c, first in firsts]
        return coordinates[0] if len(coordinates) == 1 else np.stack(coordinates, axis=-1)

    def input_positions_of(self, stored: I64 | None, mask: np.ndarray, sources: I64) -> I64:
        """The positions of the decoder's input: SOS, and then the target without its last token.

        `stored` and `mask` are of the target, as in `positions_of`. sources: int64 [B], the numbers of source tokens.
        """
        if not self.continues:
            return after(0, self.positions_of(stored, mask))
        positions = self.positions_of(None if stored is None else after(0, stored), after(0, mask), sources)
        for axis in (axis for axis, column in enumerate(self.columns) if column == LINE and len(self.columns) > 1):
            positions[:, 0, axis] = sources + 1  # of SOS
        return positions


def after(first: int, values: I64) -> I64:
    """The decoder's input: `first`, then all values but the last. Takes and returns int64 [B, L, ...]."""
    return np.concatenate([np.full_like(values[:, :1], first), values[:, :-1]], axis=1)


@dataclass(frozen=True)
class Side:
    """The sources or the targets of a window as they are stored; those of row r are offsets[r]:offsets[r + 1]."""

    offsets: I64  # [R + 1]
    ids: np.ndarray  # uint16 [T]
    positions: np.ndarray  # uint64 [T] or [T, C]

    @property
    def length(self) -> I64:
        """The number of tokens of each row, int64 [R]."""
        return np.diff(self.offsets)

    def emptied(self) -> Side:
        """As many rows without tokens."""
        return Side(np.zeros_like(self.offsets), self.ids[:0], self.positions[:0])

    def length_of(self, rows: I64) -> I64:
        """The number of tokens of the given rows. int64 [B] -> int64 [B]"""
        return self.offsets[rows + 1] - self.offsets[rows]


@dataclass(frozen=True)
class Window:
    """Some thousand rows of a split, from which batches are collated."""

    row: I64  # [R] row number in the split
    size: I64  # [R]
    op: I64  # [R]
    source: Side
    target: Side

    @classmethod
    def of(cls, part: pa.Table) -> Window:
        """The window of a table whose columns have one chunk each. It shares the table's memory.

        Ids and positions become int64 batch by batch.
        """

        def side(name: str) -> Side:
            ids, column = (part[f"{name}_{what}"].chunk(0) for what in ("ids", "positions"))
            offsets = ids.offsets.to_numpy().astype(np.int64)
            return Side(offsets=offsets, ids=ids.values.to_numpy(), positions=sequence_rows.positions(column))

        op = part["op"].chunk(0)
        return cls(
            row=whole_numbers(part, "row"),
            size=whole_numbers(part, "size"),
            op=op.indices.fill_null(-1).to_numpy().astype(np.int64),
            source=side("source"),
            target=side("target"),
        )

    def batches(self, batch_size: int, rng: np.random.Generator | None) -> list[I64]:
        """The indices into the window of the rows of each batch, int64 [B] with at most `batch_size` rows.

        Rows of similar length are in the same batch: rows are halved by source or by target length, whichever varies
        more, until they fit into a batch. With `rng`, the batches are in random order.
        """
        source, target = self.source.length, self.target.length
        batches: list[I64] = []
        waiting = [np.arange(self.row.size) if rng is None else rng.permutation(self.row.size)]
        while waiting:
            rows = waiting.pop()
            if rows.size <= batch_size:
                batches.append(rows)
                continue
            length = max(source[rows], target[rows], key=np.ptp)
            rows = rows[np.argsort(length, kind="stable")]
            half = -(-rows.size // batch_size) // 2 * batch_size
            waiting += [rows[half:], rows[:half]]
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]


def collate(
    window: Window,
    rows: I64,
    reading: PositionReading,
    share: Share = WHOLE,
    padding: Padding = exact_length,
) -> SequenceBatch:
    """Collate the chosen rows of a window into a batch.

    `rows` are indices into the window, int64 [B]. With a `share`, the batch has only the rows of this share, padded to
    the length that the whole batch has. Raises `UsageError` if the map of positions has none for a token.
    """
    chosen, is_labelled = own_rows(rows, share)
    unfolds = any(isinstance(s, Tree) for s in reading.data.simple)
    source_end = reading.data == Seq()  # whether each source has an EOS
    target_end = source_end and not reading.tagged
    before = window.source.emptied() if reading.causal else window.source
    source_most, target_most = (
        padding(int(side.length_of(rows).max(initial=0)) + end)
        for side, end in ((before, source_end), (window.target, target_end))
    )
    source, source_at, source_mask = _pad(before, source_most, chosen, source_end)
    target, target_at, target_mask = _pad(window.target, target_most, chosen, target_end)
    lengths = source_mask.sum(1)
    if reading.tagged:
        inputs, inputs_at, inputs_mask = _pad(window.source, target_most, chosen)
        input_positions = reading.positions_of(inputs_at, inputs_mask, lengths if reading.continues else None)
    else:
        inputs, input_positions = after(SOS, target), reading.input_positions_of(target_at, target_mask, lengths)
    source_positions = reading.positions_of(source_at, source_mask)
    read = window.source if reading.tagged else window.target
    count = read.length_of(chosen) + target_end
    if (drawn := reading.positions) is not None:
        numbers = window.row[chosen]
        sources = window.source.length_of(chosen) + source_end  # also if models read only the EOS
        drawn.check(numbers, sources, count)
        source_positions = drawn.at(numbers, sources, drawn.places(source, source_positions), source_mask)
        input_places = drawn.places(inputs, input_positions)
        input_positions = drawn.at(numbers, sources, input_places, np.arange(inputs.shape[1]) < count[:, None])
    label_places = _asked(target, padding) if reading.tagged else None
    if label_places is not None:
        target = np.take_along_axis(target, label_places, axis=1)
    whole = None
    if share != WHOLE or reading.causal:
        labels = window.target.ids[ragged.take(window.target.offsets, rows)[0]]
        tokens = window.source.length_of(rows) + source_end
        whole = int((labels != PAD).sum()) + target_end * rows.size, int(tokens.sum())
    tensor = torch.from_numpy
    batch = SequenceBatch(
        source_ids=tensor(source),
        source_positions=tensor(source_positions),
        source_mask=tensor(source_mask),
        input_ids=tensor(inputs),
        input_positions=tensor(input_positions),
        labels=tensor(target if is_labelled else np.full_like(target, PAD)),
        row=window.row[chosen],
        size=window.size[chosen],
        op=window.op[chosen],
        label_positions=tensor(target_at) if unfolds else None,
        label_places=None if label_places is None else tensor(label_places),
        whole=whole,
    )
    if not reading.decoder_only:
        return batch
    length = padding(int((before.length_of(rows) + source_end + read.length_of(rows) + target_end).max(initial=0)))
    join = partial(_without_gap, lengths=lengths, end=lengths + count, length=length)
    is_shared = reading.is_line and drawn is None  # all rows have the same positions
    line = np.ones((1, length), dtype=bool)
    positions = reading.positions_of(None, line) if is_shared else join(source_positions, input_positions)
    indices = np.minimum(lengths[:, None] + np.arange(target_most), length - 1)
    return DecoderOnlyBatch(
        **vars(batch),
        ids=tensor(join(source, inputs)),
        positions=tensor(positions),
        input_indices=tensor(indices),
    )


def _asked(tags: I64, padding: Padding) -> I64 | None:
    """The places of the tags that are asked for, in order, and then of others that are PAD. None if these are all.

    int64 [B, M] -> int64 [B, Q]
    """
    length = padding(max(1, int((tags != PAD).sum(1).max(initial=0))))
    return None if length >= tags.shape[1] else np.argsort(tags == PAD, axis=1, kind="stable")[:, :length]


def _without_gap(source: I64, target: I64, lengths: I64, end: I64, length: int) -> I64:
    """Source and target of each row without a gap, padded with 0. [B or 1, N, ...], [B, M, ...] -> [B, `length`, ...]

    lengths: int64 [B], of the sources; end: int64 [B], of source and target together.
    """
    both = np.concatenate([np.broadcast_to(source, (len(target), *source.shape[1:])), target], axis=1)
    index, gap = np.arange(length), (source.shape[1] - lengths)[:, None]
    taken = np.minimum(index + gap * (index >= lengths[:, None]), both.shape[1] - 1)
    packed = both[np.arange(len(target))[:, None], taken]
    packed[index >= end[:, None]] = 0
    return packed


def _pad(side: Side, length: int, chosen: I64, closed: bool = False) -> tuple[I64, I64, np.ndarray]:
    """Pad the given rows to `length` tokens, which include an EOS for each row if they are `closed`.

    Returns ids [B, L], padded with PAD; stored positions [B, L] or [B, L, C], padded with 0; and the mask [B, L].
    """
    indices, _ = ragged.take(side.offsets, chosen)
    ends = side.length_of(chosen)
    mask = np.arange(length) < ends[:, None]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = side.ids[indices]
    positions = np.zeros((*mask.shape, *side.positions.shape[1:]), dtype=np.int64)
    positions[mask] = side.positions[indices]
    if closed:
        ids[np.arange(ends.size), ends] = EOS
        mask = np.arange(length) <= ends[:, None]
    return ids, positions, mask


def whole_numbers(part: pa.Table, name: str) -> I64:
    """A column of a table with R rows as int64 [R]."""
    return part[name].to_numpy().astype(np.int64)
