"""What a batch and a result say, over all releases, without ever waiting for the GPU."""

from __future__ import annotations

from typing import Any

OTHER, DECODE, PREFILL, IDLE = 0, 1, 2, 3

_MODES = {
    "DECODE": DECODE,
    "TARGET_VERIFY": DECODE,
    "IDLE": IDLE,
    "DUMMY_FIRST": IDLE,
    "PREBUILT": OTHER,
    "DRAFT_EXTEND": OTHER,
    "DRAFT_EXTEND_V2": OTHER,
}
# Kept with the mode itself, so that no other object can get its identity.
_known: dict[int, tuple[int, object]] = {}

# Accepted tokens per request, without the bonus token (V1).
_WITHOUT_BONUS = (
    "num_correct_drafts_per_req_cpu",
    "num_accepted_drafts_per_req_cpu",
    "accept_length_per_req_cpu",
)
# The same, all requests together.
_TOTAL_WITHOUT_BONUS = ("num_correct_drafts", "num_accepted_drafts", "num_accepted_tokens")

MOST_REQUESTS_ADDED = 64


def of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The batch that a cycle's method was called with: the first argument after self, or by name."""
    if len(args) > 1 and args[1] is not None:
        return args[1]
    for name in ("batch", "model_worker_batch", "forward_batch"):
        batch = kwargs.get(name)
        if batch is not None:
            return batch
    return args[2] if len(args) > 2 else None


def describe(batch: Any) -> tuple[int, int, int]:
    """Mode (OTHER, DECODE, PREFILL or IDLE), number of requests, and their sequence lengths added up.

    The last is -1 where the host doesn't know them.
    """
    found = batch.forward_mode
    known = _known.get(id(found))
    if known is None:
        # Whatever is none of these extends a sequence: EXTEND, MIXED, SPLIT_PREFILL, DLLM_EXTEND.
        known = _known[id(found)] = (_MODES.get(getattr(found, "name", ""), PREFILL), found)
    mode = known[0]
    if mode == DECODE and getattr(batch, "is_extend_in_batch", False):
        mode = PREFILL
    requests = getattr(batch, "reqs", None)
    if requests is None:
        size = getattr(batch, "batch_size", None)
        if type(size) is not int:
            size = len(batch.seq_lens)
    else:
        size = len(requests)
    total = getattr(batch, "seq_lens_sum", None)
    return mode, size, total if type(total) is int else _added_up(requests)


def _added_up(requests: Any) -> int:
    if requests is None or len(requests) > MOST_REQUESTS_ADDED:
        return -1
    return sum(len(request.origin_input_ids) + len(request.output_ids) for request in requests)


def accepted_by(result: Any) -> list[int] | None:
    """Tokens of each request, bonus included, where `result` has them on the host (V1)."""
    for name in _WITHOUT_BONUS:
        counts = getattr(result, name, None)
        if type(counts) is list:
            return [count + 1 for count in counts]
    return None


def accepted_within(result: Any) -> list[int] | None:
    """The same, of a result that may be a tuple which holds such a thing."""
    if type(result) is not tuple:
        return accepted_by(result)
    for item in result:
        found = accepted_by(item)
        if found is not None:
            return found
    return None


def accepted_total(result: Any, requests: int) -> int | None:
    """Tokens of all requests together, bonus included, from a V1 cycle's result."""
    if type(result) is tuple:
        # (logits, token ids, batch id, accepted tokens[, graph])
        count = result[3] if len(result) > 3 else None
    else:
        told = [getattr(result, name, None) for name in _TOTAL_WITHOUT_BONUS]
        count = max((value for value in told if type(value) is int), default=None)
    return count + requests if type(count) is int else None


def comes_later(result: Any) -> bool:
    """Whether what was accepted reaches the host with a later call (V2)."""
    return getattr(result, "next_draft_input", None) is not None and hasattr(result, "accept_lens")


def accepted_later(result: Any) -> list[int] | None:
    """Tokens of each request, bonus included, of a processed V2 result; None where still on a device."""
    lengths = getattr(result, "accept_lens", None)
    if lengths is None or not getattr(lengths, "is_cpu", False):
        return None
    found: list[int] = lengths.tolist()
    return found


def graph_flag(output: Any) -> bool | None:
    """Whether a graph was replayed, as `ModelRunner.forward` returns it; None where it doesn't tell."""
    flag = getattr(output, "can_run_graph", None)
    if flag is None and type(output) is tuple and len(output) == 2:
        flag = output[1]
    return flag if type(flag) is bool else None
