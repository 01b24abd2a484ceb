"""The journal: every primitive change of state logs the old value, so that anything can be taken back.

State is made of lists and dicts whose entries are immutable; they are made with `table`, which enters them in the
one register that digest, snapshot and rollback share, and changed only through `set_item`, `put` and `drop`. No
change needs an inverse operation and no part of the state is listed twice, so neither can be forgotten.
Outside a transaction nothing is logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from paictl.cells.ids import ByCell

Key = TypeVar("Key")
Value = TypeVar("Value")
Box = TypeVar("Box")

MISSING: Final = object()
"""Logged for a dict key that was not there."""


class Table(NamedTuple):
    """A part of the state: a list, dict or bytearray with immutable entries."""

    name: str
    values: Any
    bits: bool = False
    """Whether the entries are bit sets, that is, integers too long for decimal digits."""


class Journal:
    """The tables of a state, and the old values of its open transactions, oldest first."""

    __slots__ = ("depth", "log", "tables")

    def __init__(self) -> None:
        self.log: list[tuple[Any, Any, Any]] | None = None
        self.depth = 0
        self.tables: list[Table] = []
        """Every part of the state, in the order in which they were made."""

    def table(self, name: str, values: Box, *, bits: bool = False) -> Box:
        """Register a part of the state under a name of its own, and return it."""
        self.tables.append(Table(name, values, bits))
        return values

    def begin(self) -> int:
        """Open a (possibly nested) transaction and return the mark to roll back to."""
        if self.log is None:
            self.log = []
        self.depth += 1
        return len(self.log)

    def rollback(self, mark: int) -> None:
        """Close the innermost transaction and restore every entry changed since its mark."""
        log = self.log
        assert log is not None, "rollback without begin"  # noqa: S101 (a bug of ours, checked at no cost)
        while len(log) > mark:
            box, key, old = log.pop()
            if old is MISSING:
                del box[key]
            else:
                box[key] = old
        self._close()

    def commit(self) -> None:
        """Close the innermost transaction and keep its changes."""
        self._close()

    def length(self) -> int:
        """Number of changes in the open transactions; larger than a transaction's mark once it has changed anything."""
        return len(self.log or ())

    def _close(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.log = None

    def set_item(self, box: ByCell[Key, Value], index: Key, value: Value) -> None:
        """``box[index] = value`` for a list."""
        if self.log is not None:
            self.log.append((box, index, box[index]))
        box[index] = value

    def put(self, box: dict[Key, Value], key: Key, value: Value) -> None:
        """``box[key] = value`` for a dict."""
        if self.log is not None:
            self.log.append((box, key, box.get(key, MISSING)))
        box[key] = value

    def drop(self, box: dict[Key, Value], key: Key) -> None:
        """``del box[key]`` for a dict; the key must be there."""
        if self.log is not None:
            self.log.append((box, key, box[key]))
        del box[key]
