"""A stand-in for SGLang's kernel library on a CPU: its operators in plain torch.

Written to be obviously right, not fast: it serves tiny models. Two kinds of names exist: functions that are
imported from here (index bookkeeping, token trees), and operators reached as `torch.ops.sgl_kernel.NAME`
(layers, attention). Whatever isn't written imports all the same, and raises NotImplementedError when called.
"""

from . import attention, layers, missing, registry, slots, trees
from .missing import placeholder as __getattr__
from .slots import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from .trees import (
    build_tree_kernel_efficient_cpu,
    reconstruct_indices_from_tree_mask_cpu,
    verify_tree_greedy_cpu,
)

__version__ = "0.0.0+cpu.stand.in"

__all__ = [
    "__getattr__",
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "reconstruct_indices_from_tree_mask_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]

missing.install()
registry.register(attention.OPERATORS | layers.OPERATORS | slots.OPERATORS | trees.OPERATORS)
