"""Mistakes in the encodings of foreign attention."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "scores of a T5 that are scaled by 1/sqrt(K)",
        "_T5Attention.__init__",
        "own.key_value_proj_dim**0.5",
        "1.0",
        "models/adapters/test_hugging_face.py::test_t5_is_the_encoding_of_t5",
    ),
    Mistake(
        "keys of grouped heads in another order than the queries",
        "split_heads",
        "x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat_interleave(groups, dim=1)",
        "x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat(1, groups, 1, 1)",
        "models/adapters/test_hugging_face.py::test_rope_is_the_encoding_of_llama",
    ),
    Mistake(
        "replaced attention that is in training mode in a model that is not",
        "_T5Attention.__init__",
        "self.train(own.training)",
        "self.train()",
        "models/adapters/test_hugging_face.py::test_t5_is_the_encoding_of_t5",
    ),
    Mistake(
        "a decoder whose positions are those of an encoder",
        "_Positions.forward",
        "causal=True",
        "causal=False",
        "models/adapters/test_hugging_face.py::test_a_llama_with_each_scheme",
    ),
]
