"""What callers of the extender say, checked against the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from paictl.cluster.pods.reading import asks
from paictl.extender.core import ExtenderCore
from paictl.extender.table import UnknownPodError
from paictl.extender.wire import pod_ref
from paictl.remote.kube import pods
from paictl.remote.kube.client import KubeClient

LAG: Final = 0.25
"""Seconds for which news about a pod are awaited: under load kube-scheduler hears of it that much earlier."""
LOOK: Final = 0.005
"""Seconds between looks whether they have come."""


async def learn(client: KubeClient, core: ExtenderCore, pod: Mapping[str, Any]) -> None:
    """Wait until the informer has told of a pod as a caller sent it; one it does not know is then fetched, once.

    Raises `PaictlError` if the API server does not answer, and `NotServingError`.
    """
    known = core.table.by_uid.get(pod_ref(pod).uid)
    for _ in range(int(LAG / LOOK) if known is not None or asks(pod) else 0):
        await asyncio.sleep(LOOK)
        if _is_known(core, pod):
            return
    if known is None or not known.listed:  # the informer never is behind a fetched one for good
        await run_in_threadpool(_fetch, client, core, pod)


def _is_known(core: ExtenderCore, pod: Mapping[str, Any]) -> bool:
    try:
        core.table.named_by(pod)
    except UnknownPodError:
        return False
    return True


def _fetch(client: KubeClient, core: ExtenderCore, pod: Mapping[str, Any]) -> None:
    """Enter a pod as the API server has it now, unless it runs, has ended or is another one of that name."""
    ref = pod_ref(pod)
    found = pods.get(client, ref.namespace, ref.name)
    if found is None or found["metadata"].get("uid") != ref.uid or (found.get("spec") or {}).get("nodeName"):
        return
    if (found.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return
    with core.serving():
        entry = core.table.by_uid.get(ref.uid)
        if not core.table.has_gone(ref.uid) and (entry is None or not entry.listed):
            core.table.meet(found, core.clock())
