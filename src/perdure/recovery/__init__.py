"""A run found half-done: pure decisions. This room decides and never acts."""
