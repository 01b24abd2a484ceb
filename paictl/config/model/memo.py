"""Compute a view once per document or bundle, however many rules ask for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


def once_per(make: Callable[[Key], Made]) -> Callable[[Key], Made]:
    """Remember what `make` returns for each document or bundle, and forget it together with that."""
    known: WeakKeyDictionary[Key, Made] = WeakKeyDictionary()

    @wraps(make)
    def get(key: Key) -> Made:
        made = known.get(key)
        if made is None:
            made = known[key] = make(key)
        return made

    return get
