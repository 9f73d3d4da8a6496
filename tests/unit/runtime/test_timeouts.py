"""Timeouts, retries, rates and limits of tools."""
