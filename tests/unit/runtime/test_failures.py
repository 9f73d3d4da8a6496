"""Exceptions: declared, not declared, of the step; poison; what cannot be stored."""
