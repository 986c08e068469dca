"""Adapters: use a scheme in attention outside this package.

| function | for |
|---|---|
| `sdpa_inputs` | PyTorch's `scaled_dot_product_attention` |
| `flex_inputs` | PyTorch's `flex_attention`, which also supports a locality bias |
| `use_scheme` | a Llama or T5 model of `transformers`, in place of its own encoding |

To call the hooks of a scheme yourself, apply them as follows:

| hook of the scheme | applies to | before or after scaling by 1/√K |
|---|---|---|
| `embed(x, context)` | token embeddings, once | |
| `rotate(q, context, "query")`, `rotate(k, context, "key")` | queries and keys of each head | before |
| `decay(q_context, k_context)` | scores, as a factor | after |
| `bias(q, q_context, k_context)` | scores, as a term; takes unrotated queries | after |

ALiBi only adds a penalty on distance, with slope 2^(-8h/H) in head h of H. For three tokens:

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
