"""Killing an agent to see whether it survives.

A `Scenario` names an agent, the outside that its tools act on, and the people around it. `sweep` kills it
with SIGKILL at every boundary of the engine that it reaches, `storm` at random moments while many runs are
under way; each time the run is resumed in a fresh process and judged by `perdure.testing.oracle`. Replay
one point with

    python -m perdure.testing.crash point MODULE:SCENARIO --at call.acted:2

`pool` runs sweeps in warm processes of their own, several at once.
"""

from perdure.testing.crash.kill import Kill, parse_kills
from perdure.testing.crash.outside import LostReply, Outside, reply_of
from perdure.testing.crash.scenario import RUN_ID, Hands, Place, Scenario, find_scenario, truthful
from perdure.testing.crash.trial import Trial, Verdict, run_trial

__all__ = [
    "RUN_ID",
    "Hands",
    "Kill",
    "LostReply",
    "Outside",
    "Place",
    "Scenario",
    "Trial",
    "Verdict",
    "find_scenario",
    "parse_kills",
    "reply_of",
    "run_trial",
    "truthful",
]
