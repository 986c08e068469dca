"""Mistakes in pictures of positional encodings."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "offsets with the wrong sign: query - key",
        "apart",
        "offset = at[None, :] - at[:, None]",
        "offset = at[:, None] - at[None, :]",
        "structure/test_places.py::test_an_offset_is_key_minus_query",
    ),
    Mistake(
        "sizes of biases with queries as columns",
        "_of_bias",
        "term[0] ** 2",
        "term[0].mT ** 2",
        "evaluation/test_position_scores.py::test_relative_is_the_length_of_its_vectors",
    ),
    Mistake(
        "scores of all pairs with queries as columns",
        "_of_attention",
        "attention.logits(scheme, c, c, context, context)[0]",
        "attention.logits(scheme, c, c, context, context)[0].mT",
        "evaluation/test_position_scores.py::test_t5_is_the_scalar_of_the_offset_with_its_sign",
    ),
    Mistake(
        "a mean over contents without their opposites, in which a term with the query is left",
        "_contents",
        "(axis, -axis)",
        "(axis,)",
        "evaluation/test_position_scores.py::test_transformer_xl_is_the_product_of_v_with_the_offset",
    ),
    Mistake(
        "contents of length 1, so that an operator's share is not 1 at equal positions",
        "_of_heads",
        "k**0.25",
        "1.0",
        "evaluation/test_position_scores.py::test_rope_is_the_mean_of_the_cosines",
    ),
    Mistake(
        "initial weights drawn instead of the trained ones",
        "of_run",
        "load_scheme(run, trained)",
        "load_scheme(run, made)",
        "cli/test_draw.py::test_before_and_after_training",
    ),
    Mistake(
        "the scores of keys at other queries for those of a query at the node",
        "diagram",
        "subject.scores.mean(0)[chosen]",
        "subject.scores.mean(0)[:, chosen]",
        "reports/pictures/test_nodes.py::test_numbers_are_those_of_a_query_there",
    ),
    Mistake(
        "the range over pairs taken for the range over heads",
        "curves",
        "by_head.max(0)",
        "np.array([subject.scores[:, offset == one].max() for one in x])",
        "reports/pictures/test_offsets.py::test_means_by_hand",
    ),
    Mistake(
        "attention weights of an untrained model",
        "attention_maps",
        "load_weights(run, model)",
        "",
        "evaluation/test_attention_maps.py::test_weights_by_hand",
    ),
    Mistake(
        "attention weights with dropout",
        "attention_maps",
        "of_data(config, data).eval()",
        "of_data(config, data)",
        "evaluation/test_attention_maps.py::test_weights_by_hand",
    ),
    Mistake(
        "heat maps upside down",
        "_heat_map",
        'axes.imshow(panel.values, norm=_norm(panel), cmap=_colours(), interpolation="none", aspect="equal")',
        'axes.imshow(panel.values[::-1], norm=_norm(panel), cmap=_colours(), interpolation="none", aspect="equal")',
        "reports/pictures/test_figure.py::test_the_first_query_is_at_the_top",
    ),
]
