"""The names under which newer releases import the tree operators."""

from .missing import placeholder as __getattr__
from .trees import reconstruct_indices_from_tree_mask_cpu as reconstruct_indices_from_tree_mask

__all__ = ["__getattr__", "reconstruct_indices_from_tree_mask"]
