"""What perdure costs, measured: `python -m bench` (or `make bench`) runs everything and prints one table.

Every figure stands beside two floors of the same minute: a bare SQLite loop (what the disk costs) and a fixed
loop of plain Python (what the processor gives just now). No test is timed; this is no part of the test suite.
"""
