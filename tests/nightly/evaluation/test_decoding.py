"""Greedy decoding agrees with teacher forcing, for each order and model that the quick tests leave out."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.evaluation.test_decoding import SOME, check_agreement

OTHERS = [pair for pair in product([None, "breadth", "depth"], ["encoder-decoder", "decoder"]) if pair not in SOME]


@pytest.mark.parametrize(("order", "model"), OTHERS)
def test_greedy_agrees_with_teacher_forcing_where_all_is_right(tmp_path: Path, order: str | None, model: str) -> None:
    check_agreement(tmp_path, order, model)
