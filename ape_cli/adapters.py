"""Adapters: the encodings of this package in attention that is not ours.

| function | for |
|---|---|
| `sdpa_inputs` | torch's `scaled_dot_product_attention` |
| `flex_inputs` | torch's `flex_attention`, also with a locality bias |
| `use_scheme` | a Llama or a T5 of the library `transformers`, in place of its own encoding |

What a scheme does, and where it belongs in other attention:

| hook of the scheme | where | before or after 1/√K |
|---|---|---|
| `embed(x, context)` | on the embeddings of the tokens, once | |
| `rotate(q, context, "query")`, `rotate(k, context, "key")` | on each head's queries and keys | before |
| `decay(q_context, k_context)` | multiplied into the scores | after |
| `bias(q, q_context, k_context)` | added to the scores; it is given unrotated queries | after |

Three tokens under a penalty on their distance, which is all that ALiBi adds:

    >>> import torch
    >>> from torch.nn import functional
    >>> from ape_cli import adapters, position
    >>> scheme = position.make("alibi", d_model=4, heads=2)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> q, k, v = torch.randn(3, 1, 2, 3, 2)  # each [batch, heads, tokens, channels of a head]
    >>> inputs = adapters.sdpa_inputs(scheme, q, k, context)
    >>> -inputs.attn_mask[0, 0]  # the penalty; the slope of the first of two heads is 1/16
    tensor([[0.0000, 0.0625, 0.1250],
            [0.0625, 0.0000, 0.0625],
            [0.1250, 0.0625, 0.0000]])
    >>> functional.scaled_dot_product_attention(inputs.q, inputs.k, v, attn_mask=inputs.attn_mask).shape
    torch.Size([1, 2, 3, 2])
"""

from ape_cli.models.adapters.hugging_face import use_scheme
from ape_cli.models.adapters.torch_attention import FlexInputs, SdpaInputs, flex_inputs, sdpa_inputs

__all__ = ["FlexInputs", "SdpaInputs", "flex_inputs", "sdpa_inputs", "use_scheme"]
