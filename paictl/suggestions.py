"""Which known name somebody meant who wrote another one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

LONGEST: Final = 100
"""Characters of a word; whoever wrote a longer one has not mistyped a name."""
_left: ContextVar[list[int] | None] = ContextVar("_left", default=None)
"""Characters that may be compared yet, where somebody limits them."""


@contextmanager
def limited(characters: int) -> Iterator[None]:
    """Within it no more than so many characters are compared; then no word is near any other.

    For texts of strangers, who may write as many wrong names as they like.
    """
    token = _left.set([characters])
    try:
        yield
    finally:
        _left.reset(token)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known word that a mistyped one most likely meant; case, dashes and underscores count little.

    `cutoff` is how much of them must be alike: a rule that decides by it is careful, a hint for people may be bolder.
    """
    if len(word) > LONGEST or not _afford(0):
        return None
    names = [name for name in known if len(name) <= LONGEST]
    if not _afford(sum(len(word) + len(name) for name in names)):
        return None
    plain = {_plain(name): name for name in sorted(names, reverse=True)}
    if _plain(word) in plain:
        return plain[_plain(word)]
    close = difflib.get_close_matches(_plain(word), plain, 1, cutoff=cutoff)
    return plain[close[0]] if close else None


def _afford(characters: int) -> bool:
    """Whether so many more may be compared; they are counted."""
    left = _left.get()
    if left is None:
        return True
    left[0] -= characters
    return left[0] > 0


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
