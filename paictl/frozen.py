"""Values that never change: `dataclass(frozen=True, slots=True)` at a tenth of what it costs to make the class.

A command makes 150 to 200 such classes before it does anything, and `dataclasses` compiles six functions for each: a
quarter of the time in which a command started (docs/decisions/frozen.md). Here the fields are still a dataclass's, so
that `fields`, `asdict`, `replace`, `match` and type checkers know them; but `__init__`, `__eq__` and `__hash__` are
compiled when they are first called, which most never are, and the other methods are the same for all classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, Final, TypeVar, dataclass_transform

Made = TypeVar("Made")
Method = Callable[..., Any]

_KNOWN: Final = "__dataclass_params__"
"""Where `dataclass` notes what it was told of a class."""

_ABSENT: Final = object()
"""What an argument is that was not given, where the field makes its own default."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[Made]) -> type[Made]:
    """As `dataclass(frozen=True, slots=True)`; every field is an argument of `__init__`, in their order."""
    return _with_methods(dataclass(init=False, repr=False, eq=False, slots=True, frozen=_is_heir(kind))(kind))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_caching(kind: type[Made]) -> type[Made]:
    """As `dataclass(frozen=True)`: without slots, so that the class may have cached properties."""
    return _with_methods(dataclass(init=False, repr=False, eq=False, frozen=_is_heir(kind))(kind))


def _is_heir(kind: type[Any]) -> bool:
    """Whether a class has a frozen base, of ours or of the standard library's; `dataclass` wants to be told."""
    return any(base.__dict__[_KNOWN].frozen for base in kind.__mro__[1:] if _KNOWN in base.__dict__)


def _with_methods(made: type[Made]) -> type[Made]:
    made.__dict__[_KNOWN].frozen = True  # for an heir that is decorated by `dataclass`, such as a user's policy
    for name, write in (("__init__", _init), ("__eq__", _eq), ("__hash__", _hash)):
        _add(made, name, _compiled_late(made, name, write))
    for name, method in _SHARED.items():
        _add(made, name, method)
    return made


def _add(made: type[Any], name: str, method: Method) -> None:
    if made.__dict__.get(name) is None:  # what a class defines itself stays; `None` is how Python says unhashable
        setattr(made, name, method)


def _compiled_late(made: type[Any], name: str, write: Callable[[type[Any], dict[str, Any]], str]) -> Method:
    """A method that compiles the one that `write` gives, and puts it in its own place, when it is called."""

    def method(self: Any, *given: Any, **named: Any) -> Any:
        known: dict[str, Any] = {}
        exec(write(made, known), known)  # noqa: S102 - as `dataclasses` does, of names that are identifiers
        compiled: Method = known[name]
        compiled.__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, compiled)
        return compiled(self, *given, **named)

    return method


def _init(made: type[Any], known: dict[str, Any]) -> str:
    """The text of `__init__`; what it needs to know by name goes into `known`, as with the two below."""
    known |= {"_set": object.__setattr__, "_absent": _ABSENT}
    arguments, body = ["self"], []
    for each in fields(made):
        if not each.init or each.kw_only:
            raise TypeError(
                f"{made.__qualname__}.{each.name}: in a frozen class every field is an argument by position"
            )
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            arguments.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
            arguments.append(f"{name}=_default_{name}")
        else:
            arguments.append(name)
        body.append(f"_set(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    return f"def __init__({', '.join(arguments)}):\n    " + "\n    ".join(body or ["pass"])


def _eq(made: type[Any], _: dict[str, Any]) -> str:
    same = f"{_compared(made, 'self')} == {_compared(made, 'other')}"
    return f"def __eq__(self, other):\n    return {same} if other.__class__ is self.__class__ else NotImplemented"


def _hash(made: type[Any], _: dict[str, Any]) -> str:
    return f"def __hash__(self):\n    return hash({_compared(made, 'self')})"


def _compared(made: type[Any], whose: str) -> str:
    return f"({''.join(f'{whose}.{each.name}, ' for each in fields(made) if each.compare)})"


def _shown(self: Any) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(values)})"


def _refuse_change(_: Any, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_removal(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_SHARED: Final[dict[str, Method]] = {
    "__repr__": _shown,
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_removal,
    "__getstate__": _state,  # these two copy and pickle what cannot be changed
    "__setstate__": _restore,
}
