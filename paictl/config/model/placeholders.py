"""Values that a template left to be filled in: `<% latest-release %>`, `forexample`, `IP`."""

from __future__ import annotations

import re

_TEMPLATE = re.compile(
    r"<%.*%>"  # of OpenPAI's release templates
    r"|<[A-Za-z][\w .:/-]*>"
    r"|\$\{\s*your[\w -]*\}"
    r"|`[^`]*`"  # a shell command that is to be run by hand
    r"|\b(for_?example|example(user|passw(or)?d?))\b"
    r"|\byour[_-]\w+"
    r"|/path/to/"
    r"|//ip(:port)?\b"
    r"|\bchange[_-]?me\b",
    re.IGNORECASE,
)
_WORDS = frozenset(("IP", "PORT", "HOSTNAME", "hostname", "nodename", "username", "xxx", "TODO"))


def is_placeholder(text: str) -> bool:
    """Whether a value still is what a template or a manual put there."""
    return text.strip() in _WORDS or _TEMPLATE.search(text) is not None
