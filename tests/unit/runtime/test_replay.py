"""After a crash recorded calls are served, in their order, and never made again."""
