"""Everything that can be declared of a tool, a model or a fact besides its function, as one frozen record.

What cannot work is refused here, at the declaration, naming the function. Whether a call keeps to what was
declared is decided elsewhere. Knows no runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from msgspec import Struct

from perdure.agent.declared import Declared, is_coroutine_function
from perdure.agent.parameters import REQUIRED, Parameters
from perdure.agent.policy import Approval, Price, Rate, Retry, Usage, is_a
from perdure.agent.schema import SchemaStyle
from perdure.agent.verdict import NotDone, Unknown
from perdure.errors import BadDeclaration
from perdure.state.events import Effect

EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""The effect classes, from the weakest to the strictest."""

STRICTNESS: Mapping[str, int] = {effect: rank for rank, effect in enumerate(EFFECTS)}
"""An effect class's place in that order."""

EffectOf = Callable[..., Effect]
"""An effect class that depends on the arguments: a function that takes those it needs, by name."""


class Premise(Struct, frozen=True):
    """A fact that a tool rests on, and which of the tool's parameters gives each of the fact's."""

    fact: Declared
    bindings: Mapping[str, str] = {}


def premise(fact: Declared, **bindings: str) -> Premise:
    """A premise whose parameters have other names than the tool's: `premise(order, order_id="id")`."""
    return Premise(fact, bindings)


class CommonOptions(TypedDict, total=False):
    """Keyword options that tools and models share; `Options` describes each."""

    effect: Effect | EffectOf
    raises: Sequence[type[Exception]]
    retry: Retry | None
    timeout: timedelta | None


class ToolOptions(CommonOptions, total=False):
    """Keyword options of `tool`; `Options` describes each."""

    name: str | None
    premises: Sequence[Declared | Premise]
    approval: Approval | None
    unknown: Literal["hold", "raise"]
    key_ttl: timedelta | None
    rate: Rate | None
    limit: int | None
    for_model: bool


class ModelOptions(CommonOptions, total=False):
    """Keyword options of `model`; `Options` describes each."""

    price: Price | None
    max_output: int | None
    reserve: Usage | None
    usage: Callable[[Any], Usage | None] | None
    style: SchemaStyle


class Changes(ToolOptions, ModelOptions, total=False):
    """Keyword options of `Tool.replace`."""

    fresh_for: timedelta | None
    same: Callable[[Any], object] | None


class Options(Struct, frozen=True):
    """What was declared.

    `effect`: what repeating a call does, or a function of the arguments that tells. `premises`: facts that
    must still hold when the call is made. `approval`: whose permission it needs. `raises`: exceptions that
    are definite failures. `unknown`: whether a call without a reply holds the run or tells the agent.
    `retry`: how definite failures are tried again. `timeout`: how long one attempt may take. `key_ttl`: how
    long the other side remembers a key. `rate`: calls in a span of time. `limit`: calls in flight at once.
    `for_model`: offered to the model.

    Models: `price`; `max_output`, the most output tokens of a call, reserved before it under a budget (None:
    no bound, so all that is left is); `reserve`, the worst case of a call, in place of an estimate by its
    arguments and `max_output`; `usage` (reads a reply's usage); `style` (in which API's words an agent
    without a step offers it tools). Facts: `fresh_for` (how old a value may be), `same` (a key function;
    equal keys mean unchanged).
    """

    effect: Effect | EffectOf = "irreversible"
    premises: tuple[Premise, ...] = ()
    approval: Approval | None = None
    raises: tuple[type[Exception], ...] = ()
    unknown: Literal["hold", "raise"] = "hold"
    retry: Retry | None = None
    timeout: timedelta | None = None
    key_ttl: timedelta | None = None
    rate: Rate | None = None
    limit: int | None = None
    for_model: bool = True
    price: Price | None = None
    max_output: int | None = 4096
    reserve: Usage | None = None
    usage: Callable[[Any], Usage | None] | None = None
    style: SchemaStyle = "openai"
    fresh_for: timedelta | None = None
    same: Callable[[Any], object] | None = None


_ALLOWED: Mapping[str, frozenset[str]] = {
    "tool": frozenset(ToolOptions.__annotations__),
    "model": frozenset(ModelOptions.__annotations__) | {"name"},
    "fact": frozenset({"fresh_for", "same", "name"}),
}


def made_options(declared: Declared, changes: Mapping[str, Any], base: Options) -> Options:
    """`base` with changes, checked against the function. Raises BadDeclaration (C102)."""
    given = {name: value for name, value in changes.items() if name != "name"}
    for name in changes:
        if name not in _ALLOWED[declared.kind]:
            known = ", ".join(sorted(_ALLOWED[declared.kind]))
            raise _bad(declared, f"a {declared.kind} has no option {name!r}", f"its options: {known}")
    for name in ("premises", "raises"):
        if name in given:
            given[name] = _sequence(declared, name, given[name])
    if "premises" in given:
        given["premises"] = tuple(_premise(declared, entry) for entry in given["premises"])
    values = {name: getattr(base, name) for name in Options.__struct_fields__} | given
    options = Options(**values)
    _check_effect(declared, options)
    _check_raises(declared, options)
    _check_numbers(declared, options)
    if options.approval is not None:
        _check_approval(declared, options.approval)
    return options


def selection(fn: Callable[..., Any], parameters: Parameters, what: str) -> tuple[str, ...] | None:
    """Which of the tool's arguments a policy function takes, by name; None for all of them.

    Raises BadDeclaration.
    """
    origin = parameters.origin
    try:
        taken = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError) as error:
        raise BadDeclaration(
            f"{origin}: the signature of {what} cannot be read", where=origin.source
        ) from error
    names: list[str] = []
    for parameter in taken:
        if parameter.kind is parameter.VAR_KEYWORD:
            return None
        if parameter.name in parameters.names and parameter.kind is not parameter.POSITIONAL_ONLY:
            names.append(parameter.name)
        elif parameter.default is REQUIRED and parameter.kind is not parameter.VAR_POSITIONAL:
            raise BadDeclaration(
                f"{origin}: {what} takes {parameter.name!r}, which is not one of its parameters",
                where=origin.source,
                remedy=f"take any of {', '.join(parameters.names)} by name",
            )
    return tuple(names)


def chosen(names: tuple[str, ...] | None, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments that a policy function takes."""
    return args if names is None else {name: args[name] for name in names}


def _bad(declared: Declared, what: str, remedy: str | None = None) -> BadDeclaration:
    return BadDeclaration(f"{declared.origin}: {what}", where=declared.source, remedy=remedy)


def _sequence(declared: Declared, name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
        raise _bad(declared, f"{name} is a list, found {given!r}", f"{name}=[...]")
    return tuple(given)


def _premise(declared: Declared, entry: Declared | Premise) -> Premise:
    given = entry if isinstance(entry, Premise) else Premise(entry)
    fact = given.fact
    if not is_a(fact, Declared) or fact.kind != "fact":
        raise _bad(
            declared, f"the premise {fact!r} is not a fact", "declare it with @perdure.fact(fresh_for=...)"
        )
    names = declared.parameters.names
    for name in given.bindings:
        if name not in fact.parameters.names:
            raise _bad(declared, f"its premise {fact.name} has no parameter {name!r}")
    bindings: dict[str, str] = {}
    for name in fact.parameters.names:
        source = given.bindings.get(name, name)
        if source in names:
            bindings[name] = source
        elif name in given.bindings or name not in fact.parameters.defaults:
            raise _bad(
                declared,
                f"its premise {fact.name} needs {name!r}, and no parameter of it is called {source!r}",
                f"premise({fact.name}, {name}=...) names one of {', '.join(names) or 'its parameters'}",
            )
    return Premise(fact, bindings)


def _check_effect(declared: Declared, options: Options) -> None:
    effect = options.effect
    if callable(effect):
        if is_coroutine_function(effect):
            raise _bad(declared, "its effect function is async; it decides before anything is called")
        selection(effect, declared.parameters, "its effect function")
    elif effect not in EFFECTS:
        raise _bad(declared, f"there is no effect class {effect!r}", f"one of {', '.join(EFFECTS)}")


def _check_raises(declared: Declared, options: Options) -> None:
    for error in options.raises:
        if not is_a(error, type) or not issubclass(error, Exception):
            raise _bad(declared, f"raises lists {error!r}, which is not an exception class")
        if issubclass(error, NotDone | Unknown):
            raise _bad(declared, f"raises lists {error.__name__}, which every tool may raise")
    if options.unknown not in ("hold", "raise"):
        raise _bad(declared, f"unknown={options.unknown!r}", 'unknown="hold" or unknown="raise"')


def _check_numbers(declared: Declared, options: Options) -> None:
    for name in ("timeout", "key_ttl", "fresh_for"):
        span = getattr(options, name)
        if span is not None and not (isinstance(span, timedelta) and span > timedelta(0)):
            raise _bad(
                declared, f"{name}={span!r} is not a time longer than 0", f"{name}=timedelta(seconds=...)"
            )
    if options.limit is not None and options.limit < 1:
        raise _bad(declared, f"limit={options.limit!r}: at least 1 call must be allowed in flight")
    if options.max_output is not None and options.max_output < 1:
        raise _bad(declared, f"max_output={options.max_output!r}: at least 1 token, or None for no bound")
    if options.reserve is not None and not is_a(options.reserve, Usage):
        raise _bad(declared, f"reserve={options.reserve!r} is no worst case", "reserve=Usage(2_000, 500)")
    if options.style not in get_args(SchemaStyle):
        raise _bad(declared, f"style={options.style!r}", f"one of {', '.join(get_args(SchemaStyle))}")
    if declared.kind == "fact" and options.fresh_for is None:
        raise _bad(declared, "a fact says how old it may be", "fresh_for=timedelta(...)")
    same: Any = options.same
    if same is not None and (not callable(same) or is_coroutine_function(same)):
        what = "is async" if callable(same) else f"is {same!r:.80}"
        raise _bad(declared, f"same= {what}; it is a key function", "same=lambda order: order.status")


def _check_approval(declared: Declared, approval: Approval) -> None:
    if not is_a(approval, Approval):
        raise _bad(declared, f"approval={approval!r}", "approval=Approval(...)")
    if approval.when is not None:
        selection(approval.when, declared.parameters, "its Approval(when=)")
    notify: Any = approval.notify
    if notify is None:
        return
    if not is_a(notify, Declared) or notify.kind != "tool":
        raise _bad(declared, "Approval(notify=) is not a declared tool", '@perdure.tool(effect="idempotent")')
    needed = [name for name in notify.parameters.names if name not in notify.parameters.defaults]
    if len(notify.parameters.names) < 1 or len(needed) > 1:
        raise _bad(
            declared,
            f"{notify.name} in Approval(notify=) does not take one thing, the request",
            f"async def {notify.name}(request: ApprovalRequest): ...",
        )
    if notify.options.approval is not None:
        raise _bad(declared, f"{notify.name} in Approval(notify=) needs an approval itself")
    effect = notify.options.effect
    if callable(effect) or STRICTNESS[effect] > STRICTNESS["idempotent"]:
        raise _bad(
            declared,
            f"{notify.name} in Approval(notify=) may be sent twice",
            'declare it effect="idempotent"',
        )
