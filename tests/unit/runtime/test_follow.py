"""Two processes on one run."""
