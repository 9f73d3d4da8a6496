"""What durable state costs on paper, what it did when it was killed, and what a load would need.

Beside the line: nobody imports this room but a command of the command line, by name, when it is called. Each
experiment is a module with one function `measure(seed, tick, ...)` that returns a frozen `report.Result`.
Nothing here writes outside the folders it makes for itself.
"""
