"""Makes a tiny target and draft model with random weights: `target.gguf` and `draft.gguf`.

The harness starts this file by its path in an environment that has gguf and numpy:

    python tiny_llama_recipe.py FOLDER SEED

The draft is the target's first layer. The target's later layers disturb what the first one says only a
little, so draft tokens are accepted often but not always, much the same for every seed and context. The
sizes are such that one core prefills 2048 tokens in about a second, and that decoding waits for weights
rather than for attention, as it does with models of real size: float32 weights and narrow attention.
Whether drafting pays is then a near thing, and it depends on the context length.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

CONTEXT = 4096
HIDDEN, FEED_FORWARD = 384, 1536
HEADS, KV_HEADS, HEAD_SIZE = 2, 1, 32
LAYERS, DRAFT_LAYERS = 6, 1
TAIL_SCALE = 0.06
"""How strongly the layers that the draft lacks disturb the residual stream; sets the accept length."""

SPECIALS = 3 + 256
"""Tokens of no text of their own: unknown, begin, end, and the 256 byte tokens. All others come after."""

Weights = dict[str, NDArray[np.float32]]


def vocabulary() -> Iterator[tuple[str, gguf.TokenType, float]]:
    """Text, type and score of each token. ASCII only, so that each token streams as a chunk of its own."""
    yield "<unk>", gguf.TokenType.UNKNOWN, 0.0
    yield "<s>", gguf.TokenType.CONTROL, 0.0
    yield "</s>", gguf.TokenType.CONTROL, 0.0
    for byte in range(256):
        yield f"<0x{byte:02X}>", gguf.TokenType.BYTE, 0.0
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = ["▁" + first + second for first in syllables for second in syllables][::18]
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789.,:?!-", "▁"]
    for rank, text in enumerate(letters + words):
        yield text, gguf.TokenType.NORMAL, -float(rank)


def weights(n_vocab: int, seed: int) -> Weights:
    """The target's tensors, (rows, columns) each; the draft takes those of its own layers."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> NDArray[np.float32]:
        return random.standard_normal((rows, columns), np.float32) * np.float32(scale / columns**0.5)

    q_size, kv_size = HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE
    output = matrix(n_vocab, HIDDEN, 4.0)
    output[:SPECIALS] = 0  # a logit of 0 is never the largest, so only text is ever generated
    made: Weights = {
        "token_embd.weight": random.standard_normal((n_vocab, HIDDEN), np.float32),
        "output_norm.weight": np.ones(HIDDEN, np.float32),
        "output.weight": output,
    }
    for layer in range(LAYERS):
        scale = 1.0 if layer < DRAFT_LAYERS else TAIL_SCALE
        block = {
            "attn_norm": np.ones(HIDDEN, np.float32),
            "ffn_norm": np.ones(HIDDEN, np.float32),
            "attn_q": matrix(q_size, HIDDEN, 1.5),
            "attn_k": matrix(kv_size, HIDDEN, 1.5),
            "attn_v": matrix(kv_size, HIDDEN),
            "attn_output": matrix(HIDDEN, q_size, scale),
            "ffn_gate": matrix(FEED_FORWARD, HIDDEN),
            "ffn_up": matrix(FEED_FORWARD, HIDDEN),
            "ffn_down": matrix(HIDDEN, FEED_FORWARD, 2 * scale),
        }
        made |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in block.items()}
    return made


def write(path: Path, name: str, tensors: Weights, layers: int) -> None:
    """Write one model with its first `layers` layers."""
    texts, types, scores = zip(*vocabulary(), strict=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(texts))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }} {% endfor %}")
    for key, tensor in tensors.items():
        if not key.startswith("blk.") or int(key.split(".")[1]) < layers:
            writer.add_tensor(key, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Write both models into the folder named first, from the seed named second."""
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    tensors = weights(len(list(vocabulary())), seed)
    write(folder / "target.gguf", "tiny-target", tensors, LAYERS)
    write(folder / "draft.gguf", "tiny-draft", tensors, DRAFT_LAYERS)


if __name__ == "__main__":
    main()
