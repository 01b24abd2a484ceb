"""What was asked of a lab's server: one JSON line per request of a signed-in user, as `commandlog` has what was typed.

A job does not say whether a browser or a program has submitted it, and a refusal leaves no trace in the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from paictl.frozen import frozen
from paictl.lab.commandlog import wall_clock
from paictl.lab.messages import writing

FILE: Final = "requests.jsonl"
_UNTOLD: Final = ("/static/", "/submit/check", "/submit/draft", "/preferences")
"""What a page asks by itself, or what tells nothing."""


@frozen
class AskedRequest:
    """A request of a `user`: ``POST /submit`` of the portal, ``POST /api/v2/jobs`` of REST; `status` is its answer's.

    `at` is when it was noted, by the wall clock, as ISO text with the zone's offset.
    """

    user: str
    line: str
    status: int
    at: str = ""


def is_worth_noting(path: str) -> bool:
    """Whether a path tells what a person did; pages that renew themselves do not."""
    return not path.startswith(_UNTOLD) and not path.endswith("/live")


def append(folder: Path, request: AskedRequest) -> None:
    """Note a request and when it came; lines of two servers at once do not mix."""
    noted = request if request.at else replace(request, at=wall_clock())
    path = folder / FILE
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(noted), ensure_ascii=False) + "\n")


def read(folder: Path) -> tuple[AskedRequest, ...]:
    """All requests in order; a line that a kill cut short is left out."""
    path = folder / FILE
    if not path.is_file():
        return ()
    requests = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            requests.append(AskedRequest(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return tuple(requests)


def matching(requests: Sequence[AskedRequest], user: str, pattern: str) -> list[AskedRequest]:
    """The requests of a user that a pattern means (``POST /jobs/*``: ``*`` any letters)."""
    return [request for request in requests if request.user == user and fnmatchcase(request.line, pattern)]
