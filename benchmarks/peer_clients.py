"""The usual client libraries as they are usually used: `peer_clients.py CLIENT URL STREAMS EVENTS - OUT`.

Runs in an environment that needs the one library only. Every event is stamped where the library hands
it over, and parsed at once, as benchmark tools do. Writes one JSON object to the file OUT: for each
stream the stamps and the true times of sending, the CPU seconds, and the wall time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

Pairs = list[tuple[int, int]]


def take(line: bytes | str, pairs: Pairs, now: int) -> None:
    """Keep (stamp, true time) of one line of the stream."""
    text = line.decode() if isinstance(line, bytes) else line
    if text.startswith("data: {"):
        pairs.append((now, json.loads(text[6:])["meta_info"]["sent_ns"]))


def body(events: int) -> dict[str, object]:
    """The request."""
    return {"input_ids": [1], "sampling_params": {"max_new_tokens": events}, "stream": True}


def together(streams: int, one: Callable[[Pairs], Awaitable[None]]) -> Awaitable[list[Pairs]]:
    """Run `one` for each stream at the same time."""

    async def run() -> list[Pairs]:
        all_pairs: list[Pairs] = [[] for _ in range(streams)]
        await asyncio.gather(*(one(pairs) for pairs in all_pairs))
        return all_pairs

    return run()


async def aiohttp_lines(url: str, streams: int, events: int) -> list[Pairs]:
    """aiohttp, line by line."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=10 << 20) as session:

        async def one(pairs: Pairs) -> None:
            async with session.post(url, json=body(events)) as response:
                async for line in response.content:
                    take(line, pairs, time.monotonic_ns())

        return await together(streams, one)


async def aiohttp_any(url: str, streams: int, events: int) -> list[Pairs]:
    """aiohttp, whatever there is."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=10 << 20) as session:

        async def one(pairs: Pairs) -> None:
            rest = b""
            async with session.post(url, json=body(events)) as response:
                async for data in response.content.iter_any():
                    now = time.monotonic_ns()
                    *whole, rest = (rest + data).split(b"\n\n")
                    for line in whole:
                        take(line, pairs, now)

        return await together(streams, one)


async def httpx_lines(url: str, streams: int, events: int) -> list[Pairs]:
    """httpx, line by line."""
    import httpx

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as session:  # noqa: S113

        async def one(pairs: Pairs) -> None:
            async with session.stream("POST", url, json=body(events)) as response:
                async for line in response.aiter_lines():
                    take(line, pairs, time.monotonic_ns())

        return await together(streams, one)


async def requests_threads(url: str, streams: int, events: int) -> list[Pairs]:
    """requests, a thread a stream."""
    import requests

    all_pairs: list[Pairs] = [[] for _ in range(streams)]

    def one(pairs: Pairs) -> None:
        with requests.post(url, json=body(events), stream=True, timeout=300) as response:
            for line in response.iter_lines():
                take(line, pairs, time.monotonic_ns())

    threads = [threading.Thread(target=one, args=(pairs,)) for pairs in all_pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return all_pairs


CLIENTS = {
    "aiohttp-lines": aiohttp_lines,
    "aiohttp-any": aiohttp_any,
    "httpx": httpx_lines,
    "requests": requests_threads,
}


def main() -> None:
    """Run one client and write what it saw."""
    client, url, streams, events = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    run = CLIENTS[client]
    asyncio.run(run(url, 1, 2))
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    pairs = asyncio.run(run(url, streams, events))
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    Path(sys.argv[6]).write_text(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "pairs": pairs}))


if __name__ == "__main__":
    main()
