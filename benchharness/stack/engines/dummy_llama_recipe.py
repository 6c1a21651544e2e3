"""Makes the shape of an 8B Llama with an EAGLE3 and a standalone draft, without any weights.

The harness starts this file by its path:

    python dummy_llama_recipe.py FOLDER SEED

It writes the folders `target`, `eagle3` and `standalone`, each with a configuration and a tokenizer of 32,000
words. The engine fills in weights itself (`--load-format dummy`): kernels take as long as with real weights,
and text says nothing. Drafts are never right, so accept lengths must be simulated by the engine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 32_000
CONTEXT = 131_072
SPECIALS = ("<unk>", "<s>", "</s>")

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "initializer_range": 0.02,
    "attention_bias": False,
}
EAGLE3 = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": VOCABULARY,
}
STANDALONE = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
}


def write(folder: Path, differences: dict[str, Any]) -> None:
    """Write one model: its configuration and its tokenizer."""
    folder.mkdir()
    words = [*SPECIALS, *(f"t{number}" for number in range(len(SPECIALS), VOCABULARY))]
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": n, "content": word, **special} for n, word in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: n for n, word in enumerate(words)},
            "unk_token": SPECIALS[0],
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": SPECIALS[0],
        "bos_token": SPECIALS[1],
        "eos_token": SPECIALS[2],
        "model_max_length": CONTEXT,
        "chat_template": "{% for message in messages %}{{ message.content }} {% endfor %}",
    }
    documents = {
        "config.json": LLAMA | differences,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": settings,
    }
    for name, content in documents.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    """Write all three."""
    folder = Path(sys.argv[1])
    for name, differences in (("target", {}), ("eagle3", EAGLE3), ("standalone", STANDALONE)):
        write(folder / name, differences)


if __name__ == "__main__":
    main()
