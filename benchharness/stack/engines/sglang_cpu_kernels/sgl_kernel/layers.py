# mypy: disable-error-code="import-not-found"
"""Linear layers, norms, activation, rotary positions and writing to the cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812


def convert_weight_packed(weight: torch.Tensor) -> torch.Tensor:
    """The native library packs weights for AMX; here they stay as they are."""
    return weight.contiguous()


def weight_packed_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, is_vnni: bool = True
) -> torch.Tensor:
    """x [rows, in] times weight [out, in] transposed, plus bias [out]."""
    return F.linear(x, weight, None if bias is None else bias.to(x.dtype))


def rmsnorm_cpu(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Root-mean-square norm over the last dimension, computed in float32."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * weight.float()).to(x.dtype)


def fused_add_rmsnorm_cpu(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """In place: residual becomes residual + x, and x the norm of that."""
    residual.add_(x)
    x.copy_(rmsnorm_cpu(residual, weight, eps))


def silu_and_mul_cpu(x: torch.Tensor) -> torch.Tensor:
    """SiLU of the first half of the last dimension times the second half."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def rotary_embedding_cpu(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Query and key [tokens, heads * head_size], turned by their positions [tokens].

    Args:
        positions: position of each token.
        query, key: not changed; heads may differ between them.
        head_size: elements of a head; those beyond the cache's width pass unturned.
        cos_sin_cache: [positions, turned elements]: cosines, then sines.
        is_neox: pairs are (i, i + half); else (2 i, 2 i + 1).
    """
    angles = cos_sin_cache.index_select(0, positions.flatten().long())
    cos, sin = (half.float().unsqueeze(-2) for half in angles.chunk(2, -1))
    turned = angles.shape[-1]

    def turn(x: torch.Tensor) -> torch.Tensor:
        heads = x.reshape(positions.numel(), -1, head_size)
        part, rest = heads[..., :turned].float(), heads[..., turned:]
        if is_neox:
            a, b = part.chunk(2, -1)
            part = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        else:
            a, b = part[..., ::2], part[..., 1::2]
            part = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        return torch.cat((part.to(x.dtype), rest), -1).reshape(x.shape)

    return turn(query), turn(key)


def store_cache_cpu(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    row_dim: int,
) -> None:
    """Write keys and values of n tokens to rows `indices` [n] of the caches, rows of `row_dim` elements."""
    count = indices.numel()
    k_cache.view(-1, row_dim)[indices] = k.reshape(count, row_dim).to(k_cache.dtype)
    v_cache.view(-1, row_dim)[indices] = v.reshape(count, row_dim).to(v_cache.dtype)


def init_cpu_threads_env(cpu_ids: str) -> None:
    """The native library binds its threads; torch's are left as they are."""


def initialize(size: int, rank: int) -> None:
    """The native library opens shared memory for all-reduce; one rank needs none."""


OPERATORS = {
    name: globals()[name]
    for name in (
        "convert_weight_packed",
        "fused_add_rmsnorm_cpu",
        "init_cpu_threads_env",
        "initialize",
        "rmsnorm_cpu",
        "rotary_embedding_cpu",
        "silu_and_mul_cpu",
        "store_cache_cpu",
        "weight_packed_linear",
    )
}
