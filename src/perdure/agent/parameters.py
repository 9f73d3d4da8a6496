"""The parameters of one declared function: binding, rebuilding from plain data, schema.

Everything that can be known from the signature is computed once, at the declaration; annotations are resolved
when they are first needed, because they may name classes that are defined later. Injected parameters are left
out of everything but `injected`. Knows nothing of effect classes, calls or agents.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, TypedDict, get_origin, get_type_hints

from msgspec import Struct

from perdure.agent.docstring import Told, read_docstring
from perdure.agent.injection import Injected, Provider
from perdure.codec import Shape, plain
from perdure.codec.secret import Secret
from perdure.errors import BadArguments, BadDeclaration, KeyMissing, NotStorable, ShapeMismatch

REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""

_RETURN = "return"


class Parameter(Struct, frozen=True):
    """One parameter that callers give and the journal keeps."""

    name: str
    annotation: Any
    default: Any
    positional: bool
    positional_only: bool


class Origin(Struct, frozen=True):
    """The function behind a declaration: its own name, where it stands, and what its annotations may name."""

    name: str
    source: str
    docstring: str | None
    names: Mapping[str, Any]
    local_names: Mapping[str, Any]
    returns: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.source})"

    @property
    def short(self) -> str:
        """The name without what is around it."""
        return self.name.rpartition(".")[2]


def origin_of(fn: Callable[..., Any]) -> Origin:
    """Look behind wrappers, partials and bound methods to the function that was written."""
    inner: Any = fn
    while True:
        if isinstance(inner, functools.partial):
            inner = inner.func
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        elif hasattr(inner, "__func__"):
            inner = inner.__func__
        elif (
            not hasattr(inner, "__code__")
            and not inspect.isclass(inner)
            and hasattr(type(inner).__call__, "__code__")
        ):
            inner = type(inner).__call__
        else:
            break
    code = getattr(inner, "__code__", None)
    return Origin(
        name=str(getattr(inner, "__qualname__", None) or repr(inner)).replace("<locals>.", ""),
        source=f"{code.co_filename}:{code.co_firstlineno}" if code else "built in",
        docstring=getattr(inner, "__doc__", None),
        names=getattr(inner, "__globals__", {}),
        local_names=_surrounding_names(getattr(inner, "__annotations__", {}), code),
        returns=getattr(inner, "__annotations__", {}).get(_RETURN, REQUIRED),
    )


def _surrounding_names(annotations: Mapping[str, Any], code: CodeType | None) -> Mapping[str, Any]:
    """What annotations that are text may mean by names of the functions and classes around the declaration.

    Those still run while the declaration is made: their names are in the frames whose code holds this code.
    """
    wanted: set[str] = set()
    for annotation in annotations.values():
        if isinstance(annotation, str):
            wanted.update(re.findall(r"[^\W\d]\w*", annotation))
    found: dict[str, Any] = {}
    frame: FrameType | None = sys._getframe(1) if wanted and code is not None else None
    while frame is not None:
        if any(constant is code for constant in frame.f_code.co_consts):
            if frame.f_locals is frame.f_globals:
                break
            found = {name: value for name, value in frame.f_locals.items() if name in wanted} | found
            code = frame.f_code
        frame = frame.f_back
    return found


class Parameters:
    """The parameters of one function, in signature order.

    Raises BadDeclaration (C102) for what cannot be journaled.
    """

    def __init__(self, fn: Callable[..., Any], origin: Origin) -> None:
        try:
            signature = inspect.signature(fn)
        except (TypeError, ValueError) as error:
            raise BadDeclaration(
                f"{origin}: its signature cannot be read: {error}", where=origin.source
            ) from error
        hidden = _partial_keywords(fn)
        self.origin = origin
        self.all: list[inspect.Parameter] = [p for p in signature.parameters.values() if p.name not in hidden]
        self._prepare()

    def without_first(self) -> Parameters:
        """The same parameters without the first one: a method's, once it is bound."""
        bound = object.__new__(Parameters)
        bound.origin = self.origin
        bound.all = self.all[1:]
        bound._prepare()
        return bound

    def _prepare(self) -> None:
        declared: list[Parameter] = []
        self.injected: dict[str, Provider] = {}
        positional = True
        for parameter in self.all:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
                raise BadDeclaration(
                    f"{self.origin} takes {star}{parameter.name}: such arguments have no place in a schema",
                    where=self.origin.source,
                    remedy="name each parameter, or take one list or dict",
                )
            positional = positional and parameter.kind is not parameter.KEYWORD_ONLY
            if isinstance(parameter.default, Injected):
                self.injected[parameter.name] = parameter.default.provider
                # What stands behind an injected parameter can be given by name only.
                positional = False
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    raise BadDeclaration(
                        f"{self.origin}: the injected parameter {parameter.name!r} is positional-only",
                        where=self.origin.source,
                        remedy="move it behind the /",
                    )
                continue
            only = parameter.kind is parameter.POSITIONAL_ONLY
            declared.append(
                Parameter(parameter.name, parameter.annotation, parameter.default, positional, only)
            )
        self.declared = tuple(declared)
        self.names = tuple(parameter.name for parameter in declared)
        self.defaults = {p.name: p.default for p in declared if p.default is not REQUIRED}
        self._check_defaults()
        self._known = frozenset(self.names)
        self._positional = tuple(p.name for p in declared if p.positional)
        self._positional_only = tuple(p.name for p in declared if p.positional_only)
        # The hot path: every parameter given in order.
        self._count = len(self.names) if len(self._positional) == len(self.names) else -1

    def _check_defaults(self) -> None:
        for name, default in self.defaults.items():
            try:
                plain(default)
            except KeyMissing:  # personal data, which is sealed in a run alone
                continue
            except NotStorable as error:
                raise BadDeclaration(
                    f"{self.origin}: the default of {name!r} cannot be journaled: {error.what}",
                    where=self.origin.source,
                    remedy=f"inject it: {name}=use(provider)",
                ) from error

    def __contains__(self, name: object) -> bool:
        """Whether callers may give a parameter of this name."""
        return name in self._known

    # ---------------------------------------------------------------------------------------------- arguments

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameter name -> value, in signature order, defaults filled in.

        Raises BadArguments (T204) on a misfit.
        """
        if not kwargs and len(args) == self._count:
            return dict(zip(self.names, args))  # noqa: B905  (of one length; a keyword is dear here)
        if len(args) > len(self._positional):
            raise self._too_many(args)
        given = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given or name not in self._known or name in self._positional_only:
                raise self._unfit(name, twice=name in given)
            given[name] = value
        defaults = self.defaults
        try:
            return {name: given[name] if name in given else defaults[name] for name in self.names}
        except KeyError:
            raise self._missing(given) from None

    def split(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments of a plain call, which may also give injected parameters: (declared, injected)."""
        values: dict[str, Any] = {}
        takes = [p.name for p in self.all if p.kind is not p.KEYWORD_ONLY]
        if len(args) > len(takes):
            raise self._too_many(args)
        values.update(zip(takes, args, strict=False))
        for name, value in kwargs.items():
            if name in values or name in self._positional_only:
                raise self._unfit(name, twice=name in values)
            values[name] = value
        injected = {name: values.pop(name) for name in self.injected if name in values}
        front = [values.pop(name) for name in self._positional_only if name in values]
        return self.bind(tuple(front), values), injected

    def arguments(
        self, args: Mapping[str, Any], injected: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """How the function is called: (positional, by name)."""
        named = {**args, **injected}
        if not self._positional_only:
            return [], named
        return [named.pop(name) for name in self._positional_only], named

    def restore(self, plain_args: Mapping[str, Any]) -> dict[str, Any]:
        """Typed arguments from plain data, in signature order.

        Raises BadArguments (T204): path, expected, found.
        """
        return self._typed(plain_args, Shape.restore)

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Typed arguments from a model's JSON, in signature order. Raises BadArguments (T204)."""
        return self._typed(arguments, Shape.parse)

    def _typed(self, plain_args: Any, read: Callable[..., Any]) -> dict[str, Any]:
        if not isinstance(plain_args, Mapping):
            raise BadArguments(
                f"{self.origin.short}: expected an object of arguments, found {type(plain_args).__name__}",
                path="$", expected="object", found=type(plain_args).__name__,
            )  # fmt: skip
        for name in plain_args:
            if name not in self._known:
                raise self._unfit(name, twice=False)
        values: dict[str, Any] = {}
        for name, shape in self.shapes.items():
            if name in plain_args:
                try:
                    values[name] = read(shape, plain_args[name], where=f"$.{name}")
                except ShapeMismatch as error:
                    raise BadArguments(f"{self.origin.short}: {error.what}", **error.facts) from error
            elif name in self.defaults:
                values[name] = self.defaults[name]
            else:
                raise self._missing(plain_args)
        return values

    def _too_many(self, args: tuple[Any, ...]) -> BadArguments:
        behind = next(iter(self.injected), None)
        told = (
            f" ({behind!r} is injected; replace it with override)"
            if behind and len(args) > len(self._positional)
            else ""
        )
        return BadArguments(
            f"{self.origin.short} takes {len(self._positional)} arguments by position, got {len(args)}{told}",
            remedy=f"its parameters: {', '.join(self.names) or 'none'}",
        )

    def _unfit(self, name: object, *, twice: bool) -> BadArguments:
        if name in self.injected:
            told, remedy = (
                f"parameter {name!r} is injected and is not given by the caller",
                "replace it with override(...)",
            )
        else:
            told = f"got parameter {name!r} twice" if twice else f"has no parameter {name!r}"
            if not twice and name in self._known:
                told = f"takes parameter {name!r} by position only"
            remedy = f"its parameters: {', '.join(self.names) or 'none'}"
        return BadArguments(
            f"{self.origin.short}: {told}",
            remedy=remedy,
            path=f"$.{name}",
            expected="nothing",
            found="a value",
        )

    def _missing(self, given: Mapping[str, Any]) -> BadArguments:
        names = [name for name in self.names if name not in given and name not in self.defaults]
        return BadArguments(
            f"{self.origin.short}: missing {', '.join(map(repr, names))}",
            remedy=f"its parameters: {', '.join(self.names)}",
            path=f"$.{names[0]}" if names else "$",
            expected="a value",
            found="nothing",
        )

    # -------------------------------------------------------------------------------------------------- types

    def annotation(self, name: str, annotation: Any) -> Any:
        """An annotation with its names resolved.

        Raises BadDeclaration (C102) if one of them does not exist.
        """
        if annotation is REQUIRED:
            return Any
        holder = SimpleNamespace(__annotations__={name: annotation})
        origin = self.origin
        try:
            return get_type_hints(holder, dict(origin.names), dict(origin.local_names), include_extras=True)[
                name
            ]
        except Exception as error:
            what = "result" if name == _RETURN else f"parameter {name!r}"
            raise BadDeclaration(
                f"{origin}: the type {annotation!r} of its {what} cannot be read: {error}",
                where=origin.source,
                remedy="import or define the type where its module can see it, not under TYPE_CHECKING",
            ) from error

    @functools.cached_property
    def shapes(self) -> dict[str, Shape[Any]]:
        """Each parameter's shape, in signature order."""
        return {p.name: self._shape(p.name, p.annotation) for p in self.declared}

    @functools.cached_property
    def result(self) -> Shape[Any]:
        """The shape of what the function returns."""
        return self._shape(_RETURN, self.origin.returns)

    def _shape(self, name: str, annotation: Any) -> Shape[Any]:
        resolved = self.annotation(name, annotation)
        try:
            return Shape.of(resolved)
        except BadDeclaration as error:
            what = "result" if name == _RETURN else f"parameter {name!r}"
            raise BadDeclaration(
                f"{self.origin}: the type {resolved!r} of its {what} cannot be stored: {error.what}",
                where=self.origin.source,
                remedy="use plain data or records of it; inject clients with use(provider)",
            ) from error

    @functools.cached_property
    def told(self) -> Told:
        """The docstring, taken apart."""
        return read_docstring(self.origin.docstring, self.names)

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters as one object, with descriptions from the docstring."""
        fields = {p.name: self.annotation(p.name, p.annotation) for p in self.declared}
        _ = self.shapes  # names the parameter whose type cannot be stored
        # One type for all, so that two classes of one name get two names.
        whole = Shape(TypedDict("Arguments", fields)).schema()  # type: ignore[operator]
        hidden = {name for name, tp in fields.items() if _is_secret(tp)}
        for name in hidden:  # code gives it, and a model may not even name one
            del whole["properties"][name]
        for name, schema in whole["properties"].items():
            if name in self.told.parameters:
                schema.setdefault("description", self.told.parameters[name])
            if name in self.defaults:
                _show_default(schema, self.defaults[name])
        out: dict[str, Any] = {
            "type": "object",
            "properties": whole["properties"],
            "required": [name for name in self.names if name not in self.defaults and name not in hidden],
            "additionalProperties": False,
        }
        if "$defs" in whole:
            out["$defs"] = whole["$defs"]
        return out


def _partial_keywords(fn: Callable[..., Any]) -> set[str]:
    """Parameters that a functools.partial has filled in by name: they are no longer the caller's."""
    hidden: set[str] = set()
    while isinstance(fn, functools.partial):
        hidden.update(fn.keywords)
        fn = fn.func
    return hidden


def _is_secret(annotation: Any) -> bool:
    return annotation is Secret or get_origin(annotation) is Secret


def _show_default(schema: dict[str, Any], default: Any) -> None:
    """Tell a default that JSON can express."""
    try:
        shown = json.loads(json.dumps(plain(default), allow_nan=False))
    except (TypeError, ValueError, KeyMissing):
        return
    schema.setdefault("default", shown)
