"""Sleeping: short, long, across restarts, absurd."""
