"""Mistakes in the measure of representations and special cases."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
eigenvalues of a Jordan block as rounding has spread them
  _jordan  evaluation/test_algebra.py::test_each_kind_of_matrix_is_found
  - [complex(group.mean())] * len(group) if size > 1 else [complex(value) for value in group]
  + [complex(value) for value in group]
eigenvalues that are close taken for a Jordan block
  _block  evaluation/test_algebra.py::test_each_kind_of_matrix_is_found
  - max(UNIT * norm ** (size - 1), 4 * spread * norm ** (size - 1))
  + UNIT * norm ** (size - 1)
a half turn taken for the identity, because its eigenvalues are real
  _parts  evaluation/test_algebra.py::test_each_kind_of_matrix_is_found
  - math.atan2(value.imag, value.real)
  + value.imag
a permutation with two ones in a column
  _permutes  evaluation/test_algebra.py::test_permutations_are_found_by_their_entries
  - torch.stack([matrices.sum(-1), matrices.sum(-2)]).round()
  + torch.ones(2)
a ring without its period
  _composition  evaluation/test_algebra.py::test_a_ring_that_does_not_close_is_no_representation
  - composition(scheme, DTYPE), period(scheme, DTYPE)
  + composition(scheme, DTYPE), None
a kind although the law fails
  _representation  evaluation/test_algebra.py::test_a_law_that_fails_leaves_no_representation
  - if seen and holds:
  -     kind = f"{CONTENT}, {seen.kind}" if of_content else seen.kind
  + if seen:
  +     kind = f"{CONTENT}, {seen.kind}" if of_content else seen.kind
operators on paper that are believed
  _representation  evaluation/test_algebra.py::test_operators_that_have_nothing_to_do_with_scores_are_no_representation
  - action.error <= LIMIT and (action.steps is None or action.element is None or action.element <= LIMIT)
  + action.error <= LIMIT
an affine map taken for an operator, because it is probed with basis vectors alone
  on_queries_and_keys  evaluation/test_algebra.py::test_the_map_of_all_schemes
  - if any(scheme.rotate(nothing, scheme.context(at), side).any() for side in ("query", "key")):
  -     return None
  + assert nothing is not None
a bounded table measured beyond its end, where all vectors are one
  action_of  evaluation/test_algebra.py::test_the_map_of_all_schemes
  - sized(SAMPLES) if sized and scheme.bounded else scheme
  + scheme
a fitted operator used although it does not fit
  _representation  evaluation/test_algebra.py::test_errors_and_commutators_are_those_of_the_group
  - holds or action.law != "shift"
  + True
offsets of keys ahead of the query counted in a decoder
  _of_offsets  evaluation/test_algebra.py::test_terms_of_scores_are_matrix_elements_of_what_fits
  - here - 1 if causal else 2 * here - 1
  + 2 * here - 1
offsets near the query left out
  _of_offsets  evaluation/test_algebra.py::test_terms_of_scores_are_matrix_elements_of_what_fits
  - torch.cat([1 + paths(scheme.structure, SAMPLES, 23, steps=far - maximum - 1), near], dim=1)
  + 1 + paths(scheme.structure, SAMPLES, 23, steps=far - maximum - 1)
steps of a group that cannot be undone
  on_embeddings  evaluation/test_algebra.py::test_the_map_of_all_schemes
  - errors += [error, fitted(after[1], {1: before})[1]]
  + errors.append(error)
operators that change with the other nodes taken for those of a path
  on_queries_and_keys  evaluation/test_algebra.py::test_the_map_of_all_schemes
  - if (changed := _by_others(scheme)) > LIMIT:
  -     return Action(ALONE, changed)
  + assert _by_others(scheme) >= 0
a tree mirrored from its second level on
  mirrored  evaluation/test_relations.py::test_nodes_of_the_mirrored_tree
  - tree.level_start(level) + tree.level_start(level + 1) - 1 - nodes
  + tree.level_start(level) + (nodes - tree.level_start(level) ^ 1)
an operator on directions that no vector reaches
  fitted  evaluation/test_algebra.py::test_terms_of_scores_are_matrix_elements_of_what_fits
  - axes[size > _SPAN * size[0]]
  + axes
factors along a path in the wrong order
  on_content  evaluation/test_algebra.py::test_a_path_product_is_one_factor_for_each_token
  - t[:, after, j, None] @ t[:, None, j, before]
  + t[:, None, j, before] @ t[:, after, j, None]
terms along a path that are not added up
  on_content  evaluation/test_algebra.py::test_a_path_product_is_one_factor_for_each_token
  - errors.append(greatest(sums - constant[:, after, before]))
  + assert sums is not None
scores that are not affine, probed as if they were
  on_content  evaluation/test_algebra.py::test_a_path_product_is_one_factor_for_each_token
  - return Action(FORM, form)
  + assert form
a relation that is compared with itself
  Relation.difference  evaluation/test_relations.py::test_each_relation_fails_if_a_parameter_is_changed
  - self._seen(general, there, basis)
  + self._seen(special, at, None)
weights of keys ahead of the query as well
  Relation._seen  evaluation/test_relations.py::test_each_relation_holds
  - scores.masked_fill(ahead, -torch.inf).softmax(-1)
  + scores.softmax(-1)
a reflection taken for a rotation
  planes  evaluation/test_relations.py::test_planes_of_a_generator
  - q[..., -1] *= sign[..., None]
  + assert sign is not None
sinusoids that turn the other way
  _given  evaluation/test_relations.py::test_each_relation_holds
  - -frequencies(special.shape.d_model, special.base)
  + frequencies(special.shape.d_model, special.base)
slopes of ALiBi counted from zero, as a bias on keys
  slopes  evaluation/test_relations.py::test_each_relation_holds
  - range(1, heads + 1)
  + range(heads)
""")
