"""What pages show of instants, spans and jobs, in one form everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from paictl.cluster.interface import Cluster, Port
from paictl.frozen import frozen
from paictl.server.calls import Call

MOST_SHOWN: Final = 200
"""Tasks, events or lines of one thing that a page shows; it says how many more there are."""


def clock(at: datetime | None) -> str:
    """An instant as date and time of the cluster; `-` for none."""
    return "-" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


@frozen
class Paging:
    """Where a list begins and ends, and the addresses of the pages before and after; empty where there is none."""

    first: int
    last: int
    total: int
    before: str = ""
    after: str = ""


def paging(path: str, query: Mapping[str, str], offset: int, limit: int, total: int) -> Paging:
    """The place of a page in its list."""
    before = address(path, {**query, "offset": str(max(offset - limit, 0))}) if offset > 0 else ""
    after = address(path, {**query, "offset": str(offset + limit)}) if offset + limit < total else ""
    return Paging(min(offset + 1, total), min(offset + limit, total), total, before, after)


def address(path: str, query: Mapping[str, str]) -> str:
    """A path with what is set of a query."""
    words = urlencode({name: value for name, value in query.items() if value and value != "0"})
    return f"{path}?{words}" if words else path


def number_in(call: Call, name: str) -> int:
    """A number of the query that is not negative; 0 for anything else."""
    given = call.query.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0


def granted(call: Call) -> list[str]:
    """The virtual clusters that the caller may submit to, by name; all of them for an administrator."""
    if not call.me.account.admin:
        return sorted(call.me.account.vcs)
    return all_vcs(call.cluster) or sorted(call.me.account.vcs)


def all_vcs(cluster: Cluster) -> list[str]:
    """The virtual clusters of a cluster; none where nobody can say."""
    return [] if Port.SCHEDULING in cluster.lacks else sorted(vc.name for vc in cluster.picture().vcs)


def path_of(key: str) -> str:
    """The page of a job, from ``user~name``."""
    user, _, name = key.partition("~")
    return f"/jobs/{user}/{name}"
