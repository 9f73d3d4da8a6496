"""An agent as a tool of another one: each call of it is a child run.

Only the declaration; in a step the runtime spawns the child. Outside any run it runs the agent by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from perdure.agent.options import Options
from perdure.agent.tool import Tool
from perdure.clock import SYSTEM
from perdure.errors import BadDeclaration

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Delegate(Tool[P, R_co]):
    """A tool whose calls are runs of `agent`, a declared agent. Its one parameter is the goal."""

    def __init__(self, agent: Any, name: str, description: str, types: tuple[Any, Any]) -> None:
        self.agent = agent
        super().__init__(_pursuing(agent, name, description, types), "tool", {"name": name}, base=Options())

    def _settle(self, options: Options) -> None:
        if options != Options(for_model=options.for_model):
            raise BadDeclaration(
                f"{self.name} is the agent {self.agent.name} as a tool: only name and for_model can be set",
                where=self.agent.source,
                remedy=f"declare retries, approvals and the like on the tools of {self.agent.name}",
            )
        super()._settle(options)

    def _add_hook(self, role: str, fn: Any) -> Any:
        raise BadDeclaration(
            f"{self.name} is the agent {self.agent.name} as a tool: it has no {role} hook",
            where=self.agent.source,
            remedy=f"declare it on the tools of {self.agent.name}: its run is called back and undoes them",
        )


def _pursuing(
    agent: Any, name: str, description: str, types: tuple[Any, Any]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def pursue(goal: Any) -> Any:
        return (await agent.run(f"{name}-{SYSTEM.new_id()}", goal)).unwrap()

    pursue.__name__ = pursue.__qualname__ = name
    pursue.__doc__ = description
    pursue.__annotations__ = {"goal": types[0], "return": types[1]}
    return pursue
