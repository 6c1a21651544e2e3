"""Decode cycles rebuilt from the stream of one answer.

With the server's own times, chunks that carry the same time belong to one cycle: arrival times can't tell,
for the tokens of a cycle may come in one read or in several. Without them each chunk is taken for a cycle.

What the first group carries comes from the prefill, so it is no cycle: it is where the first one begins.
Thus, for an answer without failure: first group + tokens of all cycles == output_tokens, and the sum of
(tokens - 1) over cycles == the draft tokens that the engine counts as accepted. The output limit doesn't
disturb this with llama.cpp: it drafts no more than the answer still has room for. (Up to b9093 it sent only
one token of an answer's last cycle, but counted all; the client goes by its count, and so do cycles.)
"""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from operator import itemgetter

from benchharness.records import Cycle, RequestTrace


def from_trace(trace: RequestTrace) -> tuple[Cycle, ...]:
    """The decode cycles of one request, in order; none for an answer of one group or less.

    `total_ms` is the time from the end of the cycle before. Its source is `server-timing` and its clock
    `host` where every chunk has the server's time, else `client-chunk` and `client`. Nothing is repaired:
    a server's time that runs backwards gives a negative duration.
    """
    told = bool(trace.chunk_server_ms) and not any(math.isnan(ms) for ms in trace.chunk_server_ms)
    if not told and not chunks_are_cycles(trace):
        return ()
    groups = _server_groups(trace) if told else _client_groups(trace)
    return tuple(
        Cycle(
            request=trace.index,
            index=index,
            tokens=tokens,
            total_ms=end_ms - start_ms,
            draft_ms=None,
            verify_ms=None,
            draft_extend_ms=None,
            source="server-timing" if told else "client-chunk",
            clock="host" if told else "client",
        )
        for index, ((start_ms, _), (end_ms, tokens)) in enumerate(pairwise(groups))
    )


def chunks_are_cycles(trace: RequestTrace) -> bool:
    """Whether each chunk after the first can be taken for one decode cycle.

    The server's own counts must say so: a server may stream a cycle's tokens one by one, or several cycles
    in one chunk. Without such counts only chunks of a single token pass, as plain decoding sends them.
    """
    if trace.tokens_estimated or trace.tokens_mismatch or not trace.chunk_tokens:
        return False
    chunks = len(trace.chunk_tokens) - 1
    if trace.verify_cycles:
        return abs(chunks - trace.verify_cycles) <= 1
    if trace.drafted_tokens and trace.accepted_tokens is not None:
        expected = trace.output_tokens - trace.chunk_tokens[0] - trace.accepted_tokens
        return abs(chunks - expected) <= 1
    return all(tokens == 1 for tokens in trace.chunk_tokens[1:])


def _server_groups(trace: RequestTrace) -> list[tuple[float, int]]:
    """(server's time in ms, tokens) of each run of chunks with one and the same time."""
    chunks = zip(trace.chunk_server_ms, trace.chunk_tokens, strict=True)
    return [(ms, sum(tokens for _, tokens in run)) for ms, run in groupby(chunks, key=itemgetter(0))]


def _client_groups(trace: RequestTrace) -> list[tuple[float, int]]:
    """(arrival in ms since the first stamp, tokens) of each chunk.

    All that came with the first stamp is one group: how long its later chunks took can't be told.
    """
    first_ns = trace.chunk_ns[0] if trace.chunk_ns else 0
    chunks = list(zip(trace.chunk_ns, trace.chunk_tokens, strict=True))
    first = sum(tokens for ns, tokens in chunks if ns == first_ns)
    return [(0.0, first), *(((ns - first_ns) / 1e6, tokens) for ns, tokens in chunks if ns > first_ns)]
