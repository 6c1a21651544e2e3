"""The stand-in engine's own process: standard library only, started by path, knows nothing of the harness."""
