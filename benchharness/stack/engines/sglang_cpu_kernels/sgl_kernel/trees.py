# mypy: disable-error-code="import-not-found"
"""Token trees of speculative decoding: building, verifying, and reading one back from its mask.

Node 0 of each request is the root: the last token that is certain. A tree is linked by the first child of
each node (`next_token`) and its next sibling, both as nodes of the same request, -1 where there is none.
Siblings come in the order of their nodes. All outputs are written into tensors of the caller.
"""

from __future__ import annotations

import torch

FULL, QLEN_ONLY, QLEN_ONLY_BITPACKING = 0, 1, 2
"""What a row of a tree mask covers: prefix and tree; the tree alone; the same as bits."""


def _links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of each node; `parents[0]` is not looked at, -1 hangs nowhere."""
    first_child, next_sibling = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        parent = parents[node]
        if parent >= 0:
            next_sibling[node] = first_child[parent]
            first_child[parent] = node
    return first_child, next_sibling


def _parents(selected: list[int], parent_list: list[int], topk: int) -> list[int]:
    """Parent node of each node of one request.

    `selected` holds, for nodes 1 and up, the place of each among all drafted candidates, rising. Candidates
    come in groups of `topk` that share a parent; group 0 hangs on the root, and `parent_list` names the
    candidate that each other group hangs on.
    """
    parents = [-1]
    for candidate in selected:
        group = candidate // topk
        if group == 0:
            parents.append(0)
        else:
            above = parent_list[group]
            parents.append(selected.index(above) + 1 if above in selected else -1)
    return parents


def _ancestry(parents: list[int]) -> torch.Tensor:
    """[nodes, nodes]: true where the column is the row's node itself or above it."""
    sees = torch.zeros((len(parents), len(parents)), dtype=torch.bool)
    for node in range(len(parents)):
        at = node
        while at > 0:
            sees[node, at] = True
            at = parents[at]
        sees[node, 0] = True
    return sees


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Build the tree of each request from the candidates that were selected.

    Args:
        parent_list: [requests, groups] candidate that each group of `topk` candidates hangs on.
        selected_index: [requests, nodes - 1] places of the selected candidates.
        verified_seq_len: [requests] length of the certain prefix, which is also the root's position.
        tree_mask: written; flat, see the modes above.
        positions: [requests * nodes], written.
        retrieve_index: [requests, nodes], written: place of each node in the flat batch.
        retrieve_next_token, retrieve_next_sibling: [requests, nodes], written.
        topk, depth: branches of a node, and steps.
        draft_token_num: nodes of a tree, root included.
        tree_mask_mode: FULL or QLEN_ONLY.
    """
    mode = int(tree_mask_mode)
    if mode == QLEN_ONLY_BITPACKING:
        raise NotImplementedError("the CPU stand-in of sgl_kernel has no bit-packed tree masks")
    requests, nodes = verified_seq_len.numel(), draft_token_num
    groups = parent_list.reshape(requests, -1).tolist()
    selected = selected_index.reshape(requests, -1).tolist()
    mask_at = 0
    for request, length in enumerate(verified_seq_len.tolist()):
        parents = _parents(selected[request], groups[request], topk)
        sees = _ancestry(parents)
        rows = sees if mode == QLEN_ONLY else torch.cat((sees.new_ones((nodes, length)), sees), 1)
        tree_mask.view(-1)[mask_at : mask_at + rows.numel()] = rows.flatten().to(tree_mask.dtype)
        mask_at += rows.numel()
        _write_tree(
            request,
            sees.sum(1) - 1 + length,
            parents,
            positions,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
        )


def _write_tree(
    request: int,
    own_positions: torch.Tensor,
    parents: list[int],
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
) -> None:
    nodes = len(parents)
    here = slice(request * nodes, (request + 1) * nodes)
    first_child, next_sibling = _links(parents)
    positions.view(-1)[here] = own_positions.to(positions.dtype)
    retrieve_index.view(-1)[here] = torch.arange(here.start, here.stop).to(retrieve_index.dtype)
    retrieve_next_token.view(-1)[here] = torch.tensor(first_child).to(retrieve_next_token.dtype)
    retrieve_next_sibling.view(-1)[here] = torch.tensor(next_sibling).to(retrieve_next_sibling.dtype)


def verify_tree_greedy_cpu(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Walk each tree from its root as long as a child holds what the target itself would say.

    Args:
        predicts: [requests * nodes (+ more)], written where accepted: the target's token after each node.
        accept_index: [requests, steps + 1], written: places of accepted nodes in the flat batch, root first.
        accept_token_num: [requests], written: accepted drafts, without the root.
        candidates: [requests, nodes] drafted tokens, the root's own included.
        retrive_index, retrive_next_token, retrive_next_sibling: [requests, nodes], the trees (SGLang's
            own spelling).
        target_predict: [requests, nodes] the target's token after each node.
    """
    requests, nodes = candidates.shape
    drafted = candidates.tolist()
    wanted = target_predict.reshape(-1).tolist()
    places, first_child, next_sibling = (
        links.reshape(requests, nodes).tolist()
        for links in (retrive_index, retrive_next_token, retrive_next_sibling)
    )
    said = predicts.view(-1)
    for request in range(requests):
        node, accepted = 0, 0
        place = places[request][0]
        accept_index[request, 0] = place
        said[place] = wanted[place]
        while accepted + 1 < accept_index.shape[1]:
            node = first_child[request][node]
            while node != -1 and drafted[request][node] != wanted[place]:
                node = next_sibling[request][node]
            if node == -1:
                break
            accepted += 1
            place = places[request][node]
            accept_index[request, accepted] = place
            said[place] = wanted[place]
        accept_token_num[request] = accepted


def reconstruct_indices_from_tree_mask_cpu(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Read trees back from their masks [requests, nodes, nodes]; the outputs are those of building one."""
    nodes = draft_token_num
    masks = tree_mask.reshape(batch_size, nodes, nodes).bool()
    for request, length in enumerate(verified_seq_len.tolist()):
        rows = masks[request].tolist()
        # A node's parent is the last node before it that it sees.
        parents = [
            next((up for up in range(node - 1, -1, -1) if rows[node][up]), -1) for node in range(nodes)
        ]
        _write_tree(
            request,
            masks[request].sum(1) - 1 + length,
            parents,
            positions,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
        )


OPERATORS = {
    name: globals()[name]
    for name in (
        "build_tree_kernel_efficient_cpu",
        "reconstruct_indices_from_tree_mask_cpu",
        "verify_tree_greedy_cpu",
    )
}
