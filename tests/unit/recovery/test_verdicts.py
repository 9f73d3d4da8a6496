"""Verdicts about unknown calls and mismatches: pure."""
