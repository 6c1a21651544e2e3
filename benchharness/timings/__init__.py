"""Decode cycles and their phases, from the times that a client, a log or a probe has taken."""
