# mypy: disable-error-code="import-not-found"
"""Attention over the paged cache: one new token a request (decode), or several (extend).

Shapes: q [tokens, heads, head]; k, v [tokens, kv heads, head] or flat; buffers [slots, kv heads, head].
Heads come in groups that share one kv head. SGLang up to 0.5.18 passes no k_scale and v_scale.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    cap: float,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """Attention of q [n, heads, d] over k, v [m, kv heads, d]; mask [n, m] is true where it may look."""
    if cap > 0:
        return _attend_capped(q, k, v, scale, cap, mask)
    out = F.scaled_dot_product_attention(
        q.transpose(0, 1).unsqueeze(0),
        k.transpose(0, 1).unsqueeze(0).to(q.dtype),
        v.transpose(0, 1).unsqueeze(0).to(q.dtype),
        attn_mask=mask,
        scale=scale,
        enable_gqa=q.shape[1] > k.shape[1],
    )
    return out.squeeze(0).transpose(0, 1)


def _attend_capped(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, cap: float, mask: torch.Tensor | None
) -> torch.Tensor:
    """The same with scores squeezed into (-cap, cap) by tanh."""
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (part.repeat_interleave(group, 1).float() for part in (k, v))
    scores = torch.einsum("nhd,mhd->hnm", q.float(), wide_k) * scale
    scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), wide_v).to(q.dtype)


def _refuse(is_cross: bool, sinks: torch.Tensor | None, k_scale: float, v_scale: float) -> None:
    if is_cross or sinks is not None:
        raise NotImplementedError("the CPU stand-in of sgl_kernel has no cross attention and no sinks")
    if k_scale != 1.0 or v_scale != 1.0:
        raise NotImplementedError("the CPU stand-in of sgl_kernel has no scaled (fp8) cache")


def _scales_apart(arguments: tuple[Any, ...], at: int) -> tuple[float, float, tuple[Any, ...]]:
    """(k_scale, v_scale, other arguments): newer releases pass the two floats at `at`, older ones don't."""
    if isinstance(arguments[at], float):
        return arguments[at], arguments[at + 1], arguments[:at] + arguments[at + 2 :]
    return 1.0, 1.0, arguments


def decode_attention_cpu(*arguments: Any) -> None:
    """One token a request: writes its key and value to the cache, then attends over the whole request.

    Arguments by position: q, k_buffer, v_buffer, [k_scale, v_scale,] and those of `_decode`.
    """
    k_scale, v_scale, rest = _scales_apart(arguments, 3)
    _decode(*rest, k_scale=k_scale, v_scale=v_scale)


def _decode(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    out: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    loc: torch.Tensor,
    attn_logits: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross: bool = False,
    window: int = 0,
    encoder_lens: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    k_scale: float,
    v_scale: float,
) -> None:
    """`out` [requests, heads, head] is written; `seq_lens` counts the new token; window 0 is no window."""
    _refuse(is_cross, sinks, k_scale, v_scale)
    if k is not None and v is not None:
        k_buffer[loc] = k.reshape(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc] = v.reshape(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    for request, (row, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        first = max(0, length - window) if window > 0 else 0
        slots = req_to_token[row, first:length].long()
        here = slice(request, request + 1)
        out[here] = _attend(q[here], k_buffer[slots], v_buffer[slots], sm_scale, logit_cap, None)


def extend_attention_cpu(*arguments: Any) -> None:
    """Several tokens a request, behind a prefix that is in the cache already.

    Arguments by position: q, k, v, out, k_buffer, v_buffer, [k_scale, v_scale,] and those of `_extend`.
    """
    k_scale, v_scale, rest = _scales_apart(arguments, 6)
    _extend(*rest, k_scale=k_scale, v_scale=v_scale)


def _extend(
    q: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    out: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    extend_start_loc: torch.Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross: bool = False,
    window: int = 0,
    encoder_lens: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    tree_mask: torch.Tensor | None = None,
    is_causal: bool = True,
    *,
    k_scale: float,
    v_scale: float,
) -> None:
    """`out` is written. The keys and values of the new tokens are taken from k, v where they are given.

    Args:
        seq_lens: [requests] length with the new tokens.
        extend_seq_lens, extend_start_loc: [requests] new tokens, and where they begin in q, k, v and out.
        window: how far back a token looks; 0 is no window.
        tree_mask: for each request [new, new]: which new tokens a new token sees; it sees all of the prefix.
    """
    _refuse(is_cross, sinks, k_scale, v_scale)
    mask_at = 0
    spans = zip(
        req_pool_indices.tolist(),
        seq_lens.tolist(),
        extend_seq_lens.tolist(),
        extend_start_loc.tolist(),
        strict=False,  # the start of an empty batch may have one entry
    )
    for row, length, new, start in spans:
        if new == 0:
            continue
        here, prefix = slice(start, start + new), length - new
        slots = req_to_token[row, :length].long()
        keys, values = k_buffer[slots], v_buffer[slots]
        if k is not None and v is not None:
            keys = torch.cat((keys[:prefix].to(k.dtype), k[here].reshape(new, *k_buffer.shape[1:])))
            values = torch.cat((values[:prefix].to(v.dtype), v[here].reshape(new, *v_buffer.shape[1:])))
        mask = None
        if tree_mask is not None:
            tree = tree_mask.view(-1)[mask_at : mask_at + new * new].view(new, new).bool()
            mask = torch.cat((torch.ones((new, prefix), dtype=torch.bool), tree), 1)
            mask_at += new * new
        elif is_causal:
            mask = torch.ones((new, length), dtype=torch.bool).tril(prefix)
        if mask is not None and window > 0:
            mask &= torch.ones((new, length), dtype=torch.bool).triu(prefix - window + 1)
        out[here] = _attend(q[here], keys, values, sm_scale, logit_cap, mask)


OPERATORS = {"decode_attention_cpu": decode_attention_cpu, "extend_attention_cpu": extend_attention_cpu}
