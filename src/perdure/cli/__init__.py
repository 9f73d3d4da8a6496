"""The terminal face: `perdure`. It reads and acts through what lies below it, and decides nothing itself."""

from perdure.cli.program import main

__all__ = ["main"]
