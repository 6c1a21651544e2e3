"""Which variables hold secrets, by their names and by what their values look like."""

from __future__ import annotations

import re

SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|AUTH|PRIVATE|COOKIE", re.I
)
SECRET_VALUE = re.compile(
    r"\b(?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ)[A-Za-z0-9_\-]{12,}"
    r"|://[^/\s:@]+:[^/\s@]+@|-----BEGIN|\bBearer\s+\S{8,}",
    re.I,
)
# Names that the pattern for secrets takes, though everybody may see their values.
HARMLESS = re.compile(r"MAX_.*TOKENS?$|NUM_.*TOKENS?$|TOKENIZER|TOKENS_PER|_TOKENS?_(?:LIMIT|THRESHOLD)")
MASK = "***"
MAX_VALUE = 4096
"""Characters of a value that are kept."""


def is_secret(name: str, value: str) -> bool:
    """Whether nobody should read that value in a file."""
    named = SECRET_NAME.search(name) and not HARMLESS.search(name)
    return bool(named or SECRET_VALUE.search(value))


def masked(name: str, value: str) -> str:
    """The value as it may be written down: `***` for a secret, and no longer than anybody reads."""
    return MASK if is_secret(name, value) else value[:MAX_VALUE]
