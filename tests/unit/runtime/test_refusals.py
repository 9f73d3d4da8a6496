"""Calls from where no call can be made."""
