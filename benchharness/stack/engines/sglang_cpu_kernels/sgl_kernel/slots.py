# mypy: disable-error-code="import-not-found"
"""Bookkeeping of cache slots and tokens. All outputs are written into tensors of the caller.

`req_to_token` is [requests, longest context]: the cache slot of each position of each request.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """Copy cache rows `src_loc` to `tgt_loc` in every buffer.

    Args:
        data_ptrs: [buffers] address of each buffer.
        strides: [buffers] bytes of a row.
        tgt_loc, src_loc: [rows]; all are read before any is written.
    """
    targets, sources = tgt_loc.tolist(), src_loc.tolist()
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(address + row * stride, stride) for row in sources]
        for target, row in zip(targets, rows, strict=True):
            ctypes.memmove(address + target * stride, row, stride)


def _spans(
    req_pool_indices: torch.Tensor, start: torch.Tensor, end: torch.Tensor
) -> Iterator[tuple[int, slice, slice]]:
    """(request's row, its positions, their place in the packed tensor) of each request."""
    at = 0
    for row, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        yield row, slice(first, last), slice(at, at + last - first)
        at += last - first


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Note the packed slots `out_cache_loc` for positions `start` to `end` of each request."""
    for row, positions, packed in _spans(req_pool_indices, start, end):
        req_to_token[row, positions] = out_cache_loc[packed].to(req_to_token.dtype)


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Gather the slots of positions `start` to `end` of each request, packed, into `out_cache_loc`."""
    for row, positions, packed in _spans(req_pool_indices, start, end):
        out_cache_loc[packed] = req_to_token[row, positions].to(out_cache_loc.dtype)


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Gather the `topk * num_steps` slots after each request's end, packed, into `out_cache_loc`."""
    assign_extend_cache_locs_cpu(
        req_pool_indices, req_to_token, seq_lens, seq_lens + topk * num_steps, out_cache_loc, pool_len
    )


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    """Pick each request's last accepted token.

    Args:
        accept_tokens: [requests * accept_stride].
        accept_lens: [requests] accepted tokens, bonus token included.
        bonus_tokens: [requests], written.
        accept_stride: places of one request.
    """
    requests = bonus_tokens.numel()
    last = torch.arange(requests) * accept_stride + accept_lens[:requests].long() - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last].to(bonus_tokens.dtype))


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """Pack the slots of accepted tokens; `accept_index` is -1 where there is none."""
    accepted = accept_index.flatten()
    slots = out_cache_loc[accepted[accepted > -1].long()]
    accept_out_cache_loc[: slots.numel()] = slots.to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(
    input_ids: torch.Tensor,
    extend_start_loc: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    topk_index: torch.Tensor,
    select_index: torch.Tensor | None = None,
) -> None:
    """Shift each request's tokens left by one and put its next token at the end, or at `select_index`."""
    next_tokens = topk_index.flatten()
    spans = zip(extend_start_loc.tolist(), extend_seq_lens.tolist(), strict=True)
    for request, (first, count) in enumerate(spans):
        if count <= 0:
            continue
        last = first + count - 1
        input_ids[first:last] = input_ids[first + 1 : last + 1].clone()
        place = last if select_index is None else int(select_index[request])
        input_ids[place] = next_tokens[request].to(input_ids.dtype)


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    pool_len: int,
) -> torch.Tensor:
    """A `req_to_token` of [requests * topk, pool_len] for drafting: the prefix, then the branch's own slots.

    The slots of a request's branches lie one after another behind its prefix, `num_steps` each.
    """
    table = torch.zeros((seq_lens.numel() * topk, pool_len), dtype=req_to_token.dtype)
    for request, (row, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        for branch in range(topk):
            first = length + branch * num_steps
            own = req_to_token[row, first : first + num_steps]
            line = table[request * topk + branch]
            line[:length] = req_to_token[row, :length]
            line[length : length + own.numel()] = own
    return table


OPERATORS = {
    name: globals()[name]
    for name in (
        "assign_draft_cache_locs_contiguous_cpu",
        "assign_extend_cache_locs_cpu",
        "assign_req_to_token_pool_cpu",
        "build_draft_decode_metadata_cpu",
        "copy_all_layer_kv_cache_cpu",
        "fill_accept_out_cache_loc_cpu",
        "fill_bonus_tokens_cpu",
        "rotate_input_ids_cpu",
    )
}
