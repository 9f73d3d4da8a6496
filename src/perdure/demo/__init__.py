"""A refund desk to try perdure on: a pretend bank, an agent, and a play in which its worker is killed.

`from perdure.demo import bank` gives the pretend bank of the quick start; `perdure demo` performs the play.
Nothing here leaves the machine, unless you point the desk at a model of your own.
"""
