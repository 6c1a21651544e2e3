"""Finds which change made an LLM serving stack slower, in which phase, with what certainty."""

__version__ = "0.1.0"
