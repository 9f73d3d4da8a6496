"""The same run on LangGraph and its own SQLite saver, killed in the same way, for comparison.

`python -m perdure.lab.saver FOLDER`, as `perdure.lab.life`. Needs the packages `langgraph` and
`langgraph-checkpoint-sqlite`. Every step is durable before the next one begins (`durability="sync"`,
`synchronous=FULL`), which is what the engine's `step` promises.
"""

from __future__ import annotations

import operator
import sqlite3
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from perdure.lab.life import Case, Diary, Fate, Kill, Life, lives, talk

CONFIG: Any = {"configurable": {"thread_id": "run"}, "recursion_limit": 1_000_000}
"""The thread that dies; a graph counts its steps against a limit, which is no part of this."""


class Talk(TypedDict):
    """The graph's state: a list that each step adds to."""

    messages: Annotated[list[dict[str, str]], operator.add]


class Scales(SqliteSaver):
    """The saver, weighing what it is given; the run is at `kept` when a step's checkpoint is written."""

    def __init__(self, connection: sqlite3.Connection, life: Life, fate: Fate) -> None:
        super().__init__(connection)
        self._life, self._fate = life, fate

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """As the saver's."""
        self._life.handed += len(self.serde.dumps_typed(checkpoint)[1])
        self._life.snapshots += 1
        self._life.commits += 1
        kept = super().put(config, checkpoint, metadata, new_versions)
        self._fate.at("kept")
        return kept

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """As the saver's."""
        self._life.handed += sum(len(self.serde.dumps_typed(value)[1]) for _, value in writes)
        self._life.commits += 1
        super().put_writes(config, writes, task_id, task_path)


def live(case: Case, folder: Path, kill: Kill | None, life: Life, diary: Diary) -> None:
    """Start or resume the thread, and go on until it has ended or this process has."""
    fate = Fate(kill, life, diary)
    connection = sqlite3.connect(folder / "run.db", check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    saver = Scales(connection, life, fate)
    saver.setup()

    def step(state: Talk) -> dict[str, Any]:
        number = len(state["messages"]) + 1
        fate.step = number
        fate.at("asked")
        fate.ask()
        reply = {"role": "assistant", "content": talk(number, case.message)}
        fate.at("answered")
        return {"messages": [reply]}

    def after(state: Talk) -> str:
        fate.at("ended")
        return END if len(state["messages"]) >= case.steps else "step"

    graph: Any = StateGraph(Talk)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", after)
    compiled = graph.compile(checkpointer=saver)
    fate.opened()
    began = time.perf_counter()
    begun = saver.get_tuple(CONFIG) is not None
    life.loaded, life.folded = 0, time.perf_counter() - began
    compiled.invoke(None if begun else {"messages": []}, CONFIG, durability="sync")
    life.state_bytes = len(saver.serde.dumps_typed(compiled.get_state(CONFIG).values)[1])
    connection.close()


if __name__ == "__main__":
    lives(Path(sys.argv[1]), live)
