"""Write a tokenizer of single bytes, for tools that insist on one: `tiny_tokenizer.py FOLDER`.

Runs in an environment that has `transformers`. The null server's " word" is one token of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


def main() -> None:
    """Make it."""
    folder = Path(sys.argv[1])
    merges = [("Ġ", "w"), ("Ġw", "o"), ("Ġwo", "r"), ("Ġwor", "d")]
    words = ["</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in merges)]
    tokenizer = Tokenizer(models.BPE({word: place for place, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"eos_token": words[0], "pad_token": words[0]}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE, **special)
    fast.save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": len(words)}))


if __name__ == "__main__":
    main()
