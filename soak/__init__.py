"""The long sweeps: `make soak`, or `python -m soak NAME --seed N`.

Each module in here with a function `sweep` is one; a short form of it is in the test suite. Nothing of the
product imports this.
"""
