"""Compares the stand-in kernels with slow references, case by case; runs in SGLang's environment.

    python kernel_reference.py CHECK

Every check draws seeded random cases, computes each in the plainest way (Python loops over float64), and ends
with status 1 and the first difference. On success it prints how many cases it compared.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import sgl_kernel
import torch

CASES = 60
TOLERANCE = 2e-5


class DifferenceError(Exception):
    pass


def close(got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    worst = (got.double() - want.double()).abs().max().item()
    if not worst <= TOLERANCE:
        raise DifferenceError(f"{what}: differs by {worst}")


def same(got: object, want: object, what: str) -> None:
    if got != want:
        raise DifferenceError(f"{what}: got {got}, want {want}")


# --- attention ------------------------------------------------------------------------------------


@dataclass
class Cache:
    """Two buffers and a table of which slot holds which position of which request."""

    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    rows: torch.Tensor
    lengths: list[int]


def a_cache(rng: random.Random, lengths: list[int], kv_heads: int, head: int) -> Cache:
    rows_there = len(lengths) + 2
    longest = max(lengths)
    slots = list(range(rows_there * longest))
    rng.shuffle(slots)
    table = torch.tensor(slots, dtype=torch.int32).view(rows_there, longest)
    rows = torch.tensor(rng.sample(range(rows_there), len(lengths)))
    shape = (rows_there * longest, kv_heads, head)
    return Cache(torch.randn(shape), torch.randn(shape), table, rows, lengths)


def attention_of(
    q: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor], scale: float, cap: float
) -> torch.Tensor:
    """Attention of one head of one token over the keys and values that it may see."""
    scores = []
    for key in keys:
        score = sum(a * b for a, b in zip(q.tolist(), key.tolist(), strict=True)) * scale
        scores.append(cap * math.tanh(score / cap) if cap > 0 else score)
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights)
    out = torch.zeros(values[0].numel(), dtype=torch.float64)
    for weight, value in zip(weights, values, strict=True):
        out += weight / total * value.double()
    return out


def heads(rng: random.Random) -> tuple[int, int, int]:
    """(heads, kv heads, size of a head): as many of both, groups, and one kv head for all."""
    kv_heads, group = rng.choice([(1, 1), (2, 1), (2, 2), (1, 4), (3, 2)])
    return kv_heads * group, kv_heads, rng.choice([4, 8])


def check_decode() -> int:
    for case in range(CASES):
        rng = random.Random(case)
        torch.manual_seed(case)
        q_heads, kv_heads, head = heads(rng)
        lengths = [rng.randint(1, 9) for _ in range(rng.randint(1, 4))]
        cache = a_cache(rng, lengths, kv_heads, head)
        q = torch.randn(len(lengths), q_heads, head)
        k, v = (torch.randn(len(lengths), kv_heads, head) for _ in range(2))
        slots = torch.stack(
            [cache.table[row, length - 1] for row, length in zip(cache.rows, lengths, strict=True)]
        )
        cap = rng.choice([0.0, 0.0, 5.0])
        window = rng.choice([0, 0, 3])
        scale = head**-0.5 * rng.choice([1.0, 0.6])
        out = torch.full_like(q, math.nan)
        fixed = (out, k, v, slots.long(), torch.zeros(1), cache.table, cache.rows, torch.tensor(lengths))
        scales = rng.choice([(), (1.0, 1.0)])
        operator = torch.ops.sgl_kernel.decode_attention_cpu
        operator(q, cache.k, cache.v, *scales, *fixed, scale, cap, False, window)
        for request, length in enumerate(lengths):
            places = cache.table[cache.rows[request], :length].long().tolist()
            same(cache.k[places[-1]].tolist(), k[request].tolist(), "the new key in the cache")
            seen = places[-window:] if window else places
            for at in range(q_heads):
                kv = at * kv_heads // q_heads
                want = attention_of(
                    q[request, at],
                    [cache.k[place, kv] for place in seen],
                    [cache.v[place, kv] for place in seen],
                    scale,
                    cap,
                )
                close(out[request, at], want, f"case {case}, request {request}, head {at}")
    return CASES


def check_extend() -> int:
    for case in range(CASES):
        rng = random.Random(1000 + case)
        torch.manual_seed(case)
        q_heads, kv_heads, head = heads(rng)
        new = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
        prefix = [rng.choice([0, 0, 1, 4, 7]) for _ in new]
        lengths = [a + b for a, b in zip(prefix, new, strict=True)]
        cache = a_cache(rng, lengths, kv_heads, head)
        total = sum(new)
        q = torch.randn(total, q_heads, head)
        k, v = (torch.randn(total, kv_heads, head) for _ in range(2))
        out = torch.full_like(q, math.nan)
        starts = [sum(new[:request]) for request in range(len(new))]
        trees = [random_tree_mask(rng, count) for count in new] if rng.random() < 0.4 else None
        window = rng.choice([0, 0, 2]) if trees is None else 0
        cap = rng.choice([0.0, 0.0, 3.0])
        scale = head**-0.5 * rng.choice([1.0, 0.6])
        mask = None if trees is None else torch.cat([tree.flatten() for tree in trees])
        scales = rng.choice([(), (1.0, 1.0)])
        torch.ops.sgl_kernel.extend_attention_cpu(
            *(q, k, v, out, cache.k, cache.v, *scales, cache.table, cache.rows, torch.tensor(lengths)),
            *(torch.tensor(new), torch.tensor(starts), max(new), scale, cap, False, window, None, None, mask),
        )
        for request, count in enumerate(new):
            for token in range(count):
                position = prefix[request] + token
                places = cache.table[cache.rows[request]].long().tolist()
                keys: list[tuple[torch.Tensor, torch.Tensor]] = []
                for other in range(lengths[request]):
                    inside = other - prefix[request]
                    if trees is not None:
                        sees = inside < 0 or bool(trees[request][token, inside])
                    else:
                        sees = other <= position and (not window or other > position - window)
                    if not sees:
                        continue
                    if inside < 0:
                        keys.append((cache.k[places[other]], cache.v[places[other]]))
                    else:
                        keys.append((k[starts[request] + inside], v[starts[request] + inside]))
                for at in range(q_heads):
                    kv = at * kv_heads // q_heads
                    want = attention_of(
                        q[starts[request] + token, at],
                        [key[kv] for key, _ in keys],
                        [value[kv] for _, value in keys],
                        scale,
                        cap,
                    )
                    close(out[starts[request] + token, at], want, f"case {case}, token {token}, head {at}")
    return CASES


def random_tree_mask(rng: random.Random, nodes: int) -> torch.Tensor:
    parents = [-1] + [rng.randrange(node) for node in range(1, nodes)]
    mask = torch.zeros((nodes, nodes), dtype=torch.bool)
    for node in range(nodes):
        at = node
        while at >= 0:
            mask[node, at] = True
            at = parents[at]
    return mask


# --- trees ----------------------------------------------------------------------------------------


@dataclass
class Node:
    """A drafted candidate as an object: the reference's own idea of a tree."""

    candidate: int
    parent: Node | None
    score: float
    children: list[Node] = field(default_factory=list)
    place: int = 0

    def depth(self) -> int:
        return 0 if self.parent is None else 1 + self.parent.depth()

    def line(self) -> list[int]:
        return [self.place] + ([] if self.parent is None else self.parent.line())


def draft(rng: random.Random, topk: int, steps: int, nodes: int) -> tuple[list[Node], list[int], list[int]]:
    """Draft as SGLang does: (root and chosen nodes in their order, parent_list, selected_index)."""
    root = Node(-1, None, 1.0)
    fringe = [Node(place, root, rng.random()) for place in range(topk)]
    everyone = list(fringe)
    parent_list = [-1, *range(topk)]
    for step in range(1, steps):
        made = []
        for up in fringe:
            made += [
                Node(len(everyone) + len(made) + place, up, up.score * rng.random()) for place in range(topk)
            ]
        everyone += made
        fringe = sorted(made, key=lambda node: -node.score)[:topk]
        if step < steps - 1:
            parent_list += [node.candidate for node in fringe]
    chosen = sorted(sorted(everyone, key=lambda node: -node.score)[: nodes - 1], key=lambda n: n.candidate)
    for place, node in enumerate(chosen, start=1):
        node.place = place
        assert node.parent is not None
        node.parent.children.append(node)
    return [root, *chosen], parent_list, [node.candidate for node in chosen]


def sizes(rng: random.Random) -> tuple[int, int, int]:
    """(topk, steps, nodes), chains included."""
    topk, steps = rng.choice([(1, 1), (1, 4), (2, 2), (2, 3), (3, 3), (4, 2)])
    candidates = topk + (steps - 1) * topk * topk
    return topk, steps, 1 + (steps if topk == 1 else rng.randint(1, candidates))


@dataclass
class Built:
    """What an operator wrote."""

    mask: torch.Tensor
    positions: torch.Tensor
    places: torch.Tensor
    first: torch.Tensor
    sibling: torch.Tensor


def blank(requests: int, nodes: int, mask_size: int) -> Built:
    links = (torch.full((requests, nodes), -1) for _ in range(3))
    return Built(torch.ones(mask_size, dtype=torch.bool), torch.empty(requests * nodes).long(), *links)


def built_trees(rng: random.Random, mode: int) -> tuple[list[list[Node]], list[int], Built, int]:
    topk, steps, nodes = sizes(rng)
    lengths = [rng.randint(1, 6) for _ in range(rng.randint(1, 3))]
    drafts = [draft(rng, topk, steps, nodes) for _ in lengths]
    row = {0: lambda length: length + nodes, 1: lambda _: nodes}[mode]
    built = blank(len(lengths), nodes, sum(nodes * row(length) for length in lengths))
    sgl_kernel.build_tree_kernel_efficient_cpu(
        torch.tensor([parents for _, parents, _ in drafts]),
        torch.tensor([selected for _, _, selected in drafts]),
        torch.tensor(lengths),
        *(built.mask, built.positions, built.places, built.first, built.sibling),
        *(topk, steps, nodes, mode),
    )
    return [tree for tree, _, _ in drafts], lengths, built, nodes


def check_tree(case: int, trees: list[list[Node]], lengths: list[int], built: Built, nodes: int) -> None:
    for request, (tree, length) in enumerate(zip(trees, lengths, strict=True)):
        what = f"case {case}, request {request}"
        here = slice(request * nodes, (request + 1) * nodes)
        same(built.positions[here].tolist(), [length + node.depth() for node in tree], f"{what}: positions")
        same(built.places[request].tolist(), list(range(here.start, here.stop)), f"{what}: places")
        first = [node.children[0].place if node.children else -1 for node in tree]
        same(built.first[request].tolist(), first, f"{what}: first children")
        siblings = {-1: -1}
        for node in tree:
            for child, after in itertools.zip_longest(node.children, node.children[1:]):
                siblings[child.place] = -1 if after is None else after.place
        want = [siblings.get(node.place, -1) for node in tree]
        same(built.sibling[request].tolist(), want, f"{what}: siblings")


def check_build() -> int:
    for case in range(CASES * 4):
        rng = random.Random(case)
        mode = case % 2
        trees, lengths, built, nodes = built_trees(rng, mode)
        check_tree(case, trees, lengths, built, nodes)
        want: list[bool] = []
        for tree, length in zip(trees, lengths, strict=True):
            for node in tree:
                line = node.line()
                want += [True] * (length if mode == 0 else 0) + [place in line for place in range(nodes)]
        same(built.mask.tolist(), want, f"case {case}: mask")
    return CASES * 4


def check_reconstruct() -> int:
    for case in range(CASES * 4):
        rng = random.Random(5000 + case)
        trees, lengths, built, nodes = built_trees(rng, 1)
        again = blank(len(lengths), nodes, 1)
        sgl_kernel.reconstruct_indices_from_tree_mask_cpu(
            *(built.mask, torch.tensor(lengths), again.positions, again.places, again.first, again.sibling),
            *(len(lengths), nodes),
        )
        check_tree(case, trees, lengths, again, nodes)
    return CASES * 4


def check_verify() -> int:
    accepted_drafts = 0
    for case in range(CASES * 4):
        rng = random.Random(9000 + case)
        trees, lengths, built, nodes = built_trees(rng, 1)
        requests = len(lengths)
        candidates = torch.tensor([[rng.randrange(3) for _ in range(nodes)] for _ in lengths])
        target = torch.tensor([[rng.randrange(3) for _ in range(nodes)] for _ in lengths])
        steps = 1 + max(node.depth() for tree in trees for node in tree)
        predicts = torch.full((requests * nodes + 1,), -7, dtype=torch.int32)
        accept_index = torch.full((requests, steps), -1, dtype=torch.int32)
        count = torch.full((requests,), -7, dtype=torch.int32)
        sgl_kernel.verify_tree_greedy_cpu(
            predicts, accept_index, count, candidates, built.places, built.first, built.sibling, target
        )
        want_predicts = [-7] * (requests * nodes + 1)
        for request, tree in enumerate(trees):
            path = greedy_path(tree[0], candidates[request].tolist(), target[request].tolist())
            accepted_drafts += len(path) - 1
            places = [request * nodes + place for place in path]
            same(int(count[request]), len(path) - 1, f"case {case}: accepted")
            padded = places + [-1] * (steps - len(places))
            same(accept_index[request].tolist(), padded, f"case {case}: accepted places")
            for place, node in zip(places, path, strict=True):
                want_predicts[place] = int(target[request, node])
        same(predicts.tolist(), want_predicts, f"case {case}: what the target says")
    if accepted_drafts < CASES:
        raise DifferenceError("too few accepted drafts to prove anything")
    return CASES * 4


def greedy_path(node: Node, drafted: list[int], wanted: list[int]) -> list[int]:
    for child in node.children:
        if drafted[child.place] == wanted[node.place]:
            return [node.place, *greedy_path(child, drafted, wanted)]
    return [node.place]


# --- slots and layers -----------------------------------------------------------------------------


def check_slots() -> int:
    for case in range(CASES):
        rng = random.Random(case)
        requests, width = rng.randint(1, 4), 24
        table = torch.randperm(8 * width).view(8, width).int()
        rows = torch.tensor(rng.sample(range(8), requests))
        start = [rng.randint(0, 6) for _ in range(requests)]
        end = [a + rng.randint(0, 5) for a in start]
        want = [int(table[r, p]) for r, a, b in zip(rows, start, end, strict=True) for p in range(a, b)]
        got = torch.zeros(len(want), dtype=torch.int64)
        bounds = torch.tensor(start), torch.tensor(end)
        sgl_kernel.assign_extend_cache_locs_cpu(rows, table, *bounds, got, width)
        same(got.tolist(), want, f"case {case}: gathered slots")
        written = torch.full_like(table, -1)
        sgl_kernel.assign_req_to_token_pool_cpu(rows, written, *bounds, got, width)
        for row in range(8):
            which = rows.tolist().index(row) if row in rows.tolist() else None
            for place in range(width):
                inside = which is not None and start[which] <= place < end[which]
                same(int(written[row, place]), int(table[row, place]) if inside else -1, "noted slots")
        check_drafting_slots(rng, table, rows, start)
        check_shifting(rng, requests)
    return CASES


def check_drafting_slots(
    rng: random.Random, table: torch.Tensor, rows: torch.Tensor, lengths: list[int]
) -> None:
    topk, steps, width = rng.randint(1, 3), rng.randint(1, 4), table.shape[1]
    got = torch.zeros(len(lengths) * topk * steps, dtype=torch.int64)
    given = (rows, table, torch.tensor(lengths), got, width, topk, steps)
    sgl_kernel.assign_draft_cache_locs_contiguous_cpu(*given)
    want = [int(table[r, n + p]) for r, n in zip(rows, lengths, strict=True) for p in range(topk * steps)]
    same(got.tolist(), want, "slots for drafting")
    lines = sgl_kernel.build_draft_decode_metadata_cpu(table, rows, torch.tensor(lengths), topk, steps, width)
    for request, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        for branch in range(topk):
            for position in range(length + steps):
                own = position - length
                source = position if own < 0 else length + branch * steps + own
                got_slot = int(lines[request * topk + branch, position])
                same(got_slot, int(table[row, source]), "slots of a branch")


def check_shifting(rng: random.Random, requests: int) -> None:
    counts = [rng.randint(1, 4) for _ in range(requests)]
    starts = [sum(counts[:place]) for place in range(requests)]
    ids = [rng.randrange(100) for _ in range(sum(counts))]
    fresh = [200 + place for place in range(requests)]
    got = torch.tensor(ids)
    sgl_kernel.rotate_input_ids_cpu(got, torch.tensor(starts), torch.tensor(counts), torch.tensor(fresh))
    want: list[int] = []
    for start, count, token in zip(starts, counts, fresh, strict=True):
        want += [*ids[start + 1 : start + count], token]
    same(got.tolist(), want, "tokens shifted by one")
    stride = 4
    accepted = [[rng.randrange(100) for _ in range(stride)] for _ in range(requests)]
    lens = [rng.randint(1, stride) for _ in range(requests)]
    bonus = torch.zeros(requests, dtype=torch.int64)
    sgl_kernel.fill_bonus_tokens_cpu(torch.tensor(accepted).flatten(), torch.tensor(lens), bonus, stride)
    same(bonus.tolist(), [row[n - 1] for row, n in zip(accepted, lens, strict=True)], "bonus tokens")


def check_layers() -> int:
    operators = torch.ops.sgl_kernel
    for case in range(CASES):
        rng = random.Random(case)
        torch.manual_seed(case)
        rows, width = rng.randint(1, 5), rng.choice([8, 16])
        x, weight, residual = torch.randn(rows, width), torch.randn(width), torch.randn(rows, width)
        close(operators.rmsnorm_cpu(x, weight, 1e-5), plain_norm(x, weight), "norm")
        total = x + residual
        y = x.clone()
        operators.fused_add_rmsnorm_cpu(y, residual, weight, 1e-5)
        close(residual, total, "residual")
        close(y, plain_norm(total, weight), "norm of the sum")
        gate, up = x[:, : width // 2].double(), x[:, width // 2 :].double()
        close(operators.silu_and_mul_cpu(x), gate / (1 + torch.exp(-gate)) * up, "gated activation")
        matrix = torch.randn(3, width)
        product = [
            [sum(a * b for a, b in zip(r, m, strict=True)) for m in matrix.tolist()] for r in x.tolist()
        ]
        close(operators.weight_packed_linear(x, matrix, None), torch.tensor(product), "linear layer")
        check_rotation(rng, rows)
    return CASES


def plain_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    lines = []
    for row in x.tolist():
        size = math.sqrt(sum(value * value for value in row) / len(row) + 1e-5)
        lines.append([value / size * w for value, w in zip(row, weight.tolist(), strict=True)])
    return torch.tensor(lines, dtype=torch.float64)


def check_rotation(rng: random.Random, tokens: int) -> None:
    """Turning a pair by an angle is multiplying a complex number by e^(i angle)."""
    head, turned = 8, rng.choice([4, 8])
    is_neox = rng.random() < 0.5
    angles = torch.rand(16, turned // 2) * 6
    table = torch.cat((angles.cos(), angles.sin()), -1)
    positions = torch.tensor([rng.randrange(16) for _ in range(tokens)])
    query, key = torch.randn(tokens, 2 * head), torch.randn(tokens, head)
    got = torch.ops.sgl_kernel.rotary_embedding_cpu(positions, query, key, head, table, is_neox)
    for x, y in zip((query, key), got, strict=True):
        want = x.clone().view(tokens, -1, head)
        for token in range(tokens):
            for at in range(want.shape[1]):
                for pair in range(turned // 2):
                    a, b = (pair, pair + turned // 2) if is_neox else (2 * pair, 2 * pair + 1)
                    number = complex(want[token, at, a], want[token, at, b])
                    angle = float(angles[positions[token], pair])
                    number *= complex(math.cos(angle), math.sin(angle))
                    want[token, at, a], want[token, at, b] = number.real, number.imag
        close(y.view(tokens, -1, head), want, "turned pairs")


CHECKS: dict[str, Callable[[], int]] = {
    "decode": check_decode,
    "extend": check_extend,
    "build": check_build,
    "reconstruct": check_reconstruct,
    "verify": check_verify,
    "slots": check_slots,
    "layers": check_layers,
}


if __name__ == "__main__":
    try:
        print(CHECKS[sys.argv[1]]())  # noqa: T201
    except DifferenceError as difference:
        sys.exit(f"{sys.argv[1]}: {difference}")
