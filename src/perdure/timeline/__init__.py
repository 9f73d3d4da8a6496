"""A run's past, looked at with no agent alive: nothing here loads a user's code, writes or sends (law 14)."""
