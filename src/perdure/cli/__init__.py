"""The terminal face: `perdure`. It reads and acts through what lies below it, and decides nothing of its own."""

from perdure.cli.program import main

__all__ = ["main"]
