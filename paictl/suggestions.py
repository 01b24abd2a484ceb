"""Which known name somebody meant who wrote another one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known word that a mistyped one most likely meant; case, dashes and underscores count little.

    `cutoff` is how much of them must be alike: a rule that decides by it is careful, a hint for people may be bolder.
    """
    plain = {_plain(name): name for name in sorted(known, reverse=True)}
    if _plain(word) in plain:
        return plain[_plain(word)]
    close = difflib.get_close_matches(_plain(word), plain, 1, cutoff=cutoff)
    return plain[close[0]] if close else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
