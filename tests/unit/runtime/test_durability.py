"""What waits for the disk: commits counted."""
