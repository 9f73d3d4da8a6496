"""Runtime: start, run, follow, messages."""
