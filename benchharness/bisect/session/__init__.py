"""A bisection campaign: its question, its state on disk, its steps."""
