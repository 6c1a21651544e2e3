"""Sends one prompt twice to llama.cpp, and prints how many tokens were drafted for the second answer."""

import json
import os
import urllib.request

PROMPT = [3 + (7 * k * k + 11 * k) % 250 for k in range(48)]


def drafted() -> int:
    """Tokens that were drafted for one answer."""
    body = {"prompt": PROMPT, "n_predict": 64, "temperature": 0, "ignore_eos": True, "cache_prompt": True}
    request = urllib.request.Request(  # noqa: S310 - the harness gives the address
        os.environ["BENCHHARNESS_URL"] + "/completion",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return int(json.load(answer)["timings"]["draft_n"])


drafted()
print("drafted for the second answer:", drafted())  # noqa: T201
