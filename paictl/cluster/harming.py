"""What becomes of a job that runs when the scheduler starts by another configuration."""

from __future__ import annotations

from collections.abc import Iterable

from paictl.cluster.scheduling import JobImpact
from paictl.scheduler.engine import Engine


def harm_of_running(groups: Iterable[str], now: Engine | None, then: Engine) -> JobImpact | None:
    """What its `groups` lose of the guarantees that they have `now`; None if nothing."""
    for name in groups:
        before = None if now is None else now.state.groups.by_name.get(name)
        after = then.state.groups.by_name.get(name)
        if before is None or before.virtual is None:
            continue
        if after is None:
            return JobImpact.NO_CELL
        if after.virtual is None:
            return JobImpact.NO_GUARANTEE
    return None
