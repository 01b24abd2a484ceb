"""Values that never change: `dataclass(frozen=True, slots=True)` at a tenth of what it costs to make the class.

A command makes 150 to 260 such classes before it does anything, and `dataclasses` compiles six functions for each: a
quarter of the time in which a command started (docs/decisions/frozen.md). Here the fields are still a dataclass's, so
that `fields`, `asdict`, `replace`, `match` and type checkers know them; but `__init__`, `__eq__` and `__hash__` are
compiled when they are first called, which most never are, and the other methods are the same for all classes.

The fields are noted here as `dataclass` notes them, not by it: since Python 3.13 it compiles a function for each class
even if none is asked for, which took half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, replace
from types import MemberDescriptorType
from typing import Any, Final, TypeVar, dataclass_transform

Made = TypeVar("Made")
Method = Callable[..., Any]


@dataclass(init=False, repr=False, eq=False)
class _Pattern:
    """Made by `dataclass`: what it notes of this class and of this field, ours have as well."""

    value: int


_FIELDS: Final = "__dataclass_fields__"
_KNOWN: Final = "__dataclass_params__"
"""Where `dataclass` notes the fields of a class, and what it was told of the class."""

_TOLD: Final[Any] = _Pattern.__dict__[_KNOWN]
_TOLD.frozen = True  # for an heir that is decorated by `dataclass`, such as a user's policy

_IS_VALUE: Final[Any] = fields(_Pattern)[0]._field_type  # type: ignore[attr-defined]

_ABSENT: Final = object()
"""What an argument is that was not given, where the field makes its own default."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[Made]) -> type[Made]:
    """As `dataclass(frozen=True, slots=True)`; every field is an argument of `__init__`, in their order."""
    known = _fields_of(kind)
    bases = kind.__mro__[1:-1]
    inherited = {
        name for base in bases for name, what in base.__dict__.items() if isinstance(what, MemberDescriptorType)
    }
    left = known.keys() | {"__dict__", "__weakref__"}
    kept = {name: what for name, what in kind.__dict__.items() if name not in left}
    kept |= {"__slots__": tuple(name for name in known if name not in inherited), "__qualname__": kind.__qualname__}
    meta: Any = type(kind)
    return _with_methods(meta(kind.__name__, kind.__bases__, kept), known)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_caching(kind: type[Made]) -> type[Made]:
    """As `dataclass(frozen=True)`: without slots, so that the class may have cached properties."""
    known = _fields_of(kind)
    for name, one in known.items():
        if isinstance(kind.__dict__.get(name), Field):  # the default is what a class shows
            delattr(kind, name)
            if one.default is not MISSING:
                setattr(kind, name, one.default)
    return _with_methods(kind, known)


def _fields_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """The fields of a class by name, those of its bases first; raises `TypeError` and `ValueError` as `dataclass`."""
    known: dict[str, Field[Any]] = {}
    for base in kind.__mro__[-2:0:-1]:
        if _KNOWN in base.__dict__:
            if not base.__dict__[_KNOWN].frozen:
                raise TypeError("cannot inherit frozen dataclass from a non-frozen one")
            known |= base.__dict__[_FIELDS]
    own = kind.__annotations__
    for name, type_ in own.items():
        if str(type_).partition("[")[0].rpartition(".")[2] != "ClassVar":
            known[name] = _field(kind, name, type_)
    for name, what in kind.__dict__.items():
        if isinstance(what, Field) and name not in own:
            raise TypeError(f"{name!r} is a field but has no type annotation")
    return known


def _field(kind: type[Any], name: str, type_: Any) -> Field[Any]:
    given: Any = getattr(kind, name, MISSING)
    if isinstance(given, Field):
        made = given
    else:  # of a base that has slots, what is there is the place of the value and no default
        made = field(default=MISSING if isinstance(given, MemberDescriptorType) else given)
    if made.default.__class__.__hash__ is None:
        raise ValueError(f"mutable default {type(made.default)} for field {name} is not allowed: use default_factory")
    made.name, made.type = name, type_
    made._field_type = _IS_VALUE  # type: ignore[attr-defined]
    if made.kw_only is MISSING:
        made.kw_only = False
    return made


def _with_methods(made: type[Made], known: dict[str, Field[Any]]) -> type[Made]:
    setattr(made, _FIELDS, known)
    setattr(made, _KNOWN, _TOLD)
    _add(made, "__match_args__", tuple(known))
    for name, write in (("__init__", _init), ("__eq__", _eq), ("__hash__", _hash)):
        _add(made, name, _compiled_late(made, name, write))
    for name, method in _SHARED.items():
        _add(made, name, method)
    return made


def _add(made: type[Any], name: str, what: object) -> None:
    if made.__dict__.get(name) is None:  # what a class defines itself stays; `None` is how Python says unhashable
        setattr(made, name, what)


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
    for one in fields(made):
        if not one.init or one.kw_only:
            raise TypeError(f"{made.__qualname__}.{one.name}: in a frozen class every field is an argument by position")
        name, value = one.name, one.name
        if one.default_factory is not MISSING:
            known[f"_make_{name}"] = one.default_factory
            arguments.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        elif one.default is not MISSING:
            known[f"_default_{name}"] = one.default
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
    return f"({''.join(f'{whose}.{one.name}, ' for one in fields(made) if one.compare)})"


def _shown(self: Any) -> str:
    values = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(values)})"


def _refuse_change(_: Any, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_removal(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_SHARED: Final[dict[str, Method]] = {
    "__repr__": _shown,
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_removal,
    "__replace__": replace,  # `copy.replace`
    "__getstate__": _state,  # these two copy and pickle what cannot be changed
    "__setstate__": _restore,
}
