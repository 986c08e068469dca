"""Mistakes in attention and in its kinds."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "attention dropout before the softmax, so that masked keys can be seen",
        "average",
        "weights = drop(torch.softmax(scores, dim=-1), dropout)",
        "weights = torch.softmax(drop(scores.clamp(min=-1e9), dropout), dim=-1)",
        "position/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "attention dropout that is never applied",
        "Attention.forward",
        "rate = self.dropout if self.training else 0.0",
        "rate = 0.0",
        "models/test_reference.py::test_dropout_is_at_work_in_training_alone",
    ),
    Mistake(
        "linear attention's denominator rotated",
        "Linear.mix",
        "turned_q @ (turned_k.mT @ values), plain_k.sum(-2, keepdim=True)",
        "turned_q @ (turned_k.mT @ values), turned_k.sum(-2, keepdim=True)",
        "attention/test_linear.py::test_the_denominator_is_not_rotated",
    ),
    Mistake(
        "a query that does not see its own place (causal linear attention)",
        "causal_sums",
        "(some_q @ some_k.mT).tril() @ some_v",
        "(some_q @ some_k.mT).tril(-1) @ some_v",
        "attention/test_linear.py::test_chunks_are_the_quadratic_form",
    ),
    Mistake(
        "the mask of a chunk left out: linear attention that looks ahead",
        "causal_sums",
        "(some_q @ some_k.mT).tril() @ some_v",
        "(some_q @ some_k.mT) @ some_v",
        "attention/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "padding included in the sums of linear attention",
        "Linear.mix",
        "plain_k = plain_k * link.keys[:, None, :, None]",
        "pass",
        "attention/test_contract.py::test_neither_batch_nor_padding_matters",
    ),
    Mistake(
        "padding seen by a kernel without softmax",
        "SoftmaxFree.mix",
        "weights = weights.masked_fill(~link.mask, 0.0)",
        "pass",
        "attention/test_contract.py::test_nothing_is_seen_ahead_of_time",
    ),
    Mistake(
        "a softmax in softmax-free attention",
        "SoftmaxFree.mix",
        "scores(*turned(scheme, q, k, link, q.shape[-1] ** 0.25)).exp()",
        "scores(*turned(scheme, q, k, link, q.shape[-1] ** 0.25)).softmax(-1)",
        "attention/test_contract.py::test_against_the_definition",
    ),
    Mistake(
        "padding clustered with the queries",
        "Clustered.mix",
        "real = real * link.queries[:, None, :, None]",
        "pass",
        "attention/test_clustered.py::test_padding_is_in_no_cluster",
    ),
    Mistake(
        "a centroid that no member's gradient reaches",
        "Clustered.mix",
        "means(queries, real, member, count)",
        "means(queries.detach(), real, member, count)",
        "attention/test_contract.py::test_every_parameter_gets_a_gradient",
    ),
    Mistake(
        "distances from expanded squares, which cancel",
        "distances",
        'compute_mode="donot_use_mm_for_euclid_dist"',
        'compute_mode="use_mm_for_euclid_dist"',
        "attention/test_kernels.py::test_distances_keep_their_digits_in_float32",
    ),
    Mistake(
        "a square root whose gradient at 0 is not finite",
        "distances",
        'return torch.cdist(wide(q), wide(k), compute_mode="donot_use_mm_for_euclid_dist")',
        "return (wide(q)[..., :, None, :] - wide(k)[..., None, :, :]).square().sum(-1).sqrt()",
        "attention/test_kernels.py::test_the_gradient_at_distance_0_is_a_number",
    ),
    Mistake(
        "the squared kernel in units of sqrt(K)",
        "SquaredEuclidean.unit",
        "return channels**0.25",
        "return channels**0.5",
        "attention/test_kernels.py::test_squared_euclidean_is_the_dot_product_up_to_key_norms",
    ),
    Mistake(
        "a support that no distance reaches",
        "Epanechnikov.unit",
        "return 2.0 * channels**0.5",
        "return 1.0",
        "attention/test_kernels.py::test_scores_are_alive_at_initialisation",
    ),
    Mistake(
        "a locality bias on scores that are never positive",
        "Euclidean.refuses_decay",
        'refuses_decay = "its scores are never positive, and scaled towards zero they would favour distant keys"',
        'refuses_decay = ""',
        "attention/test_choice.py::test_what_makes_no_sense_is_refused",
    ),
]
