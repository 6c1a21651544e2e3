"""Makes a tiny Llama with random weights for SGLang, and a draft model for each kind of speculation.

The harness starts this file by its path in an environment that has numpy and safetensors:

    python tiny_sglang_recipe.py FOLDER SEED

It writes the folders `target`, `standalone`, `eagle` and `eagle3`. The standalone draft is the target's first
layer; later layers disturb what that one says only a little, so its tokens are accepted often but not
always. The EAGLE drafts have weights of the right shapes and nothing to say: they do real work, and are
meant to be run with SGLang's simulated acceptance.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file  # type: ignore[import-not-found,unused-ignore]

CONTEXT = 4096
HIDDEN, FEED_FORWARD = 256, 512
HEADS, KV_HEADS, HEAD_SIZE = 4, 2, 32
LAYERS, DRAFT_LAYERS = 4, 1
TAIL_SCALE = 0.08
"""How strongly the layers that the standalone draft lacks disturb the residual stream."""

SPECIALS = ("<unk>", "<s>", "</s>")
CAPTURED_LAYERS = (0, 1, 2)
"""Layers of the target whose hidden states an EAGLE3 draft gets; by itself SGLang takes 2, n / 2 and n - 3,
which are not three different ones in a target of four layers."""

Weights = dict[str, NDArray[Any]]


def vocabulary() -> list[str]:
    """Specials, then letters, then words, each of them a token that streams as text of its own."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = ["▁" + first + second for first in syllables for second in syllables][::5]
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;?!-'\"()", "▁"]
    return [*SPECIALS, *letters, *words]


class _Random:
    """Random matrices whose products keep the size of what they are multiplied with."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int, scale: float = 1.0) -> NDArray[np.float32]:
        drawn = self._generator.standard_normal((rows, columns), np.float32)
        return drawn * np.float32(scale / columns**0.5)


def _layer(random: _Random, prefix: str, attention_in: int, scale: float) -> Weights:
    """One decoder layer; an EAGLE3 draft's attention takes twice the width: token and hidden state."""
    return {
        f"{prefix}.input_layernorm.weight": np.ones(HIDDEN, np.float32),
        f"{prefix}.post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
        f"{prefix}.self_attn.q_proj.weight": random.matrix(HEADS * HEAD_SIZE, attention_in, 1.5),
        f"{prefix}.self_attn.k_proj.weight": random.matrix(KV_HEADS * HEAD_SIZE, attention_in, 1.5),
        f"{prefix}.self_attn.v_proj.weight": random.matrix(KV_HEADS * HEAD_SIZE, attention_in),
        f"{prefix}.self_attn.o_proj.weight": random.matrix(HIDDEN, HEADS * HEAD_SIZE, scale),
        f"{prefix}.mlp.gate_proj.weight": random.matrix(FEED_FORWARD, HIDDEN),
        f"{prefix}.mlp.up_proj.weight": random.matrix(FEED_FORWARD, HIDDEN),
        f"{prefix}.mlp.down_proj.weight": random.matrix(HIDDEN, FEED_FORWARD, 2 * scale),
    }


def target(n_vocab: int, seed: int) -> Weights:
    """The target's tensors, (out, in) each."""
    random = _Random(seed)
    output = random.matrix(n_vocab, HIDDEN, 4.0)
    output[: len(SPECIALS)] = 0  # a logit of 0 is never the largest, so only text is ever generated
    made = {
        "model.embed_tokens.weight": random.matrix(n_vocab, HIDDEN, HIDDEN**0.5),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": output,
    }
    for layer in range(LAYERS):
        scale = 1.0 if layer < DRAFT_LAYERS else TAIL_SCALE
        made |= _layer(random, f"model.layers.{layer}", HIDDEN, scale)
    return made


def standalone(of_target: Weights) -> Weights:
    """The target without its later layers."""
    later = tuple(f"model.layers.{layer}." for layer in range(DRAFT_LAYERS, LAYERS))
    return {name: tensor for name, tensor in of_target.items() if not name.startswith(later)}


def eagle(seed: int) -> Weights:
    """A draft that joins token and hidden state into one width; the target's embedding and head serve it."""
    random = _Random(seed + 1)
    made = _layer(random, "layers.0", HIDDEN, 1.0)
    del made["layers.0.input_layernorm.weight"]  # the first layer of such a draft has none
    return made | {"fc.weight": random.matrix(HIDDEN, 2 * HIDDEN)}


def eagle3(n_vocab: int, seed: int) -> Weights:
    """A draft that sees three of the target's hidden states; it has a head of its own."""
    random = _Random(seed + 2)
    return _layer(random, "midlayer", 2 * HIDDEN, 1.0) | {
        "midlayer.hidden_norm.weight": np.ones(HIDDEN, np.float32),
        "fc.weight": random.matrix(HIDDEN, len(CAPTURED_LAYERS) * HIDDEN),
        "norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": random.matrix(n_vocab, HIDDEN, 4.0),
        # Draft tokens are the target's own: no offset between the two vocabularies.
        "d2t": np.zeros(n_vocab, np.int64),
    }


def config(architecture: str, layers: int, n_vocab: int) -> dict[str, Any]:
    """A config.json; the fields of drafts don't disturb the target."""
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "vocab_size": n_vocab,
        "draft_vocab_size": n_vocab,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": list(CAPTURED_LAYERS),
        },
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }


def tokenizer(texts: list[str]) -> dict[str, Any]:
    """A tokenizer.json: words where it knows them, else letters; "▁" stands for a space."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": place, "content": text} | special for place, text in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": metaspace,
        "post_processor": None,
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            # A word must be likelier than its letters one by one, whatever its place.
            "vocab": [[text, -10.0 - place / len(texts)] for place, text in enumerate(texts)],
            "byte_fallback": False,
        },
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "model_max_length": CONTEXT,
    "clean_up_tokenization_spaces": False,
    "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
}


def write(folder: Path, architecture: str, layers: int, texts: list[str], tensors: Weights) -> None:
    """Write one model with its tokenizer."""
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    documents = {
        "config.json": config(architecture, layers, len(texts)),
        "tokenizer.json": tokenizer(texts),
        "tokenizer_config.json": TOKENIZER_CONFIG,
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")


def main() -> None:
    """Write all models into the folder named first, from the seed named second."""
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    texts = vocabulary()
    weights = target(len(texts), seed)
    write(folder / "target", "LlamaForCausalLM", LAYERS, texts, weights)
    write(folder / "standalone", "LlamaForCausalLM", DRAFT_LAYERS, texts, standalone(weights))
    write(folder / "eagle", "LlamaForCausalLMEagle", 1, texts, eagle(seed))
    write(folder / "eagle3", "LlamaForCausalLMEagle3", 1, texts, eagle3(len(texts), seed))


if __name__ == "__main__":
    main()
