"""Mistakes in kinds of attention and in adapters of foreign attention."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
attention dropout before the softmax, so that masked keys can be seen
  average  evaluation/test_laws.py::test_every_law_that_is_claimed_holds
  - weights = drop(torch.softmax(scores, dim=-1), dropout)
  + weights = torch.softmax(drop(scores.clamp(min=-1e9), dropout), dim=-1)
attention dropout that is never applied
  Attention.forward  models/test_reference.py::test_dropout_is_at_work_in_training_alone
  - rate = self.dropout if self.training else 0.0
  + rate = 0.0
linear attention's denominator rotated
  Linear.attend  attention/test_linear.py::test_the_denominator_is_not_rotated
  - rotated_q @ (rotated_k.mT @ values), plain_k.sum(-2, keepdim=True)
  + rotated_q @ (rotated_k.mT @ values), rotated_k.sum(-2, keepdim=True)
a query that does not see its own place (causal linear attention)
  causal_sums  attention/test_linear.py::test_chunks_are_the_quadratic_form
  - (some_q @ some_k.mT).tril() @ some_v
  + (some_q @ some_k.mT).tril(-1) @ some_v
the mask of a chunk left out: linear attention that looks ahead
  causal_sums  evaluation/test_laws.py::test_every_law_of_an_attention_holds
  - (some_q @ some_k.mT).tril() @ some_v
  + (some_q @ some_k.mT) @ some_v
padding included in the sums of linear attention
  Linear.attend  evaluation/test_laws.py::test_every_law_of_an_attention_holds
  - plain_k = plain_k * context.keys[:, None, :, None]
  + pass
padding seen by a kernel without softmax
  SoftmaxFree.attend  evaluation/test_laws.py::test_every_law_of_an_attention_holds
  - weights = weights.masked_fill(~context.mask, 0.0)
  + pass
a softmax in softmax-free attention
  SoftmaxFree.attend  attention/test_contract.py::test_against_the_definition
  - scores(*in_units(scheme, q, k, context, q.shape[-1] ** 0.25)).exp()
  + scores(*in_units(scheme, q, k, context, q.shape[-1] ** 0.25)).softmax(-1)
padding clustered with the queries
  Clustered.attend  evaluation/test_laws.py::test_every_law_of_an_attention_holds
  - real = real * context.queries[:, None, :, None]
  + pass
a centroid that no member's gradient reaches
  Clustered.attend  evaluation/test_laws.py::test_every_law_of_an_attention_holds
  - means(queries, real, member, count)
  + means(queries.detach(), real, member, count)
the squared kernel in units of sqrt(K)
  SquaredEuclidean.unit  attention/test_kernels.py::test_squared_euclidean_is_the_dot_product_up_to_key_norms
  - return channels**0.25
  + return channels**0.5
a support that no distance reaches
  Epanechnikov.unit  attention/test_kernels.py::test_scores_are_alive_at_initialisation
  - return 2.0 * channels**0.5
  + return 1.0
a learned bias added to scores without 1/sqrt(K)
  scaled  attention/test_dot.py::test_a_learned_bias_is_that_of_torch
  - return matmul(q * q.shape[-1] ** -0.5, k.mT)
  + return q @ k.mT
a learned bias with which queries see padding and later keys
  average  attention/test_dot.py::test_a_learned_bias_is_that_of_torch
  - penalty is not None
  + penalty is not None and context.decay is not None
queries without visible keys that get the mean of padding
  average  attention/test_empty_rows.py::test_every_kind
  - return result if empty is None else result.masked_fill(empty, 0.0)
  + return result
queries without visible keys whose softmax is NaN
  average  attention/test_empty_rows.py::test_every_kind
  - penalty = (context if empty is None else context.filled).penalty
  + penalty = context.penalty
a sum of no features as the divisor of linear attention
  Linear.attend  attention/test_empty_rows.py::test_every_kind
  - norm = norm.masked_fill(context.empty, 1.0)
  + pass
queries of a model of transformers that get the mean of padding
  attend  nightly/models/adapters/test_hugging_face.py::test_padding_on_the_left
  - (mixed if empty is None else mixed.masked_fill(empty, 0.0))
  + mixed
FlexAttention that adds the locality bias instead of multiplying by it
  _score_mod.modify  models/adapters/test_torch_attention.py::test_flex_is_our_attention
  - score * decay[_at(decay, 0, row), 0, m, n]
  + score + decay[_at(decay, 0, row), 0, m, n].log()
FlexAttention whose softmax includes padding
  _score_mod.modify  models/adapters/test_torch_attention.py::test_flex_is_our_attention
  - return torch.where(key < keys, score, -float("inf"))
  + return score
blocks of queries of which each sees as far as the first one
  AttentionContext.part  attention/test_blocks.py::test_in_blocks_as_at_once
  - first=self.first + begin
  + first=0
dropout after a ReLU whose gradient is not scaled
  _DroppingRelu.backward  attention/test_dropout.py::test_dropout_after_a_relu
  - torch.ops.aten.threshold_backward(grad, out, 0.0).mul_(ctx.scale)
  + torch.ops.aten.threshold_backward(grad, out, 0.0)
float32 products in a library that rounds factors to bfloat16
  _Linear.forward  position/test_matmul.py::test_a_linear_layer_is_computed_in_float32
  - return functional.linear(x, weight, bias)
  + return functional.linear(x.bfloat16().float(), weight.bfloat16().float(), bias)
attention by a library that rounds factors to bfloat16 in the backward pass
  _Batched.backward  position/test_matmul.py::test_products_of_attention_are_computed_in_float32
  - grad @ b.mT if first else None
  + grad.bfloat16().float() @ b.mT if first else None
labels that are asked for at other tokens
  _asked  data/test_tags.py::test_only_tags_that_are_asked_for_are_scored
  - np.argsort(tags == PAD, axis=1, kind="stable")
  + np.argsort(tags != PAD, axis=1, kind="stable")
a value of the forward pass used in a checkpointed layer of the backward pass
  Context.cached  position/test_checkpointing.py::test_in_every_second_layer_and_twice
  - in_backward = torch._C._current_graph_task_id() != -1
  + in_backward = False
a value that was computed without a graph used where gradients are recorded
  Context.cached  position/test_checkpointing.py::test_a_context_that_is_used_again
  - key = compute, id(other), torch.is_grad_enabled()
  + key = compute, id(other)
a value used again after a backward pass has freed its graph
  Context.cached  position/test_checkpointing.py::test_a_context_that_is_used_again
  - self._kept[key].time == self._time
  + True
a value that a checkpoint counts as a part of the first layer
  kept_apart  position/test_checkpointing.py::test_the_gradients_of_plain_layers
  - torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None
  + False
a value known by the name of its function
  Context.cached  position/test_checkpointing.py::test_a_value_is_known_by_its_function_and_object
  - key = compute, id(other), torch.is_grad_enabled()
  + key = compute.__qualname__, id(other), torch.is_grad_enabled()
gradients with other dropout masks than the forward pass
  each_block  attention/test_blocks.py::test_dropout_is_drawn_again_as_it_was
  - preserve_rng_state=rng
  + preserve_rng_state=False
scores of a T5 that are scaled by 1/sqrt(K)
  _T5Attention.__init__  nightly/models/adapters/test_hugging_face.py::test_t5_is_the_encoding_of_t5
  - old.key_value_proj_dim**0.5
  + 1.0
keys of grouped heads in another order than the queries
  split_heads  nightly/models/adapters/test_hugging_face.py::test_rope_is_the_encoding_of_llama
  - x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat_interleave(groups, dim=1)
  + x.unflatten(-1, (heads, -1)).transpose(1, 2).repeat(1, groups, 1, 1)
a Llama whose channels are paired by neighbours
  own_options  nightly/models/adapters/test_hugging_face.py::test_a_trained_llama_keeps_its_function_with_rope
  - {"interleaved": False, "base": float(given["rope_theta"]), "scaling": scaling}
  + {"interleaved": True, "base": float(given["rope_theta"]), "scaling": scaling}
a decoder whose positions are those of an encoder
  _Positions.forward  nightly/models/adapters/test_hugging_face.py::test_a_llama_with_each_scheme
  - causal=True
  + causal=False
the first queries and all keys taken for the whole of causal attention, where the queries are the last
  AttentionContext.of  attention/test_contract.py::test_the_last_queries_see_all_keys_before_them
  - k_context.positions.shape[1] - q_context.positions.shape[1] if k_context.causal else 0
  + 0
""")
