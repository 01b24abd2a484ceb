"""Read-only views: HiveD's inspect API, explanations, the picture."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from paictl import __version__
from paictl.cluster.interface import JobState, JobView, MachineSpec, NodeCondition, NodeRole, NodeView
from paictl.cluster.picture import Picture, chain_pictures, vc_pictures
from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.cluster.whywaits import ahead_lines, closing_lines, longest_line, start_lines, waits_for_windows
from paictl.doors import gangs, pod_events, reclaim, windows
from paictl.i18n import Text, joined, text, translated
from paictl.scheduler import inspect, inspection
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import PodVerdict, explain, render, to_data
from paictl.scheduler.freecells import free_cells
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.record import encode
from paictl.scheduler.wire import isolation_text
from paictl.units import from_unix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paictl.doors.core import DoorCore
    from paictl.doors.table import PodEntry
    from paictl.scheduler.state import State

Json = dict[str, Any]

PATHS: Final = (
    "/",
    "/v1/extender/filter",
    "/v1/extender/bind",
    "/v1/extender/preempt",
    "/v1/inspect/affinitygroups/",
    "/v1/inspect/clusterstatus",
    "/v1/inspect/clusterstatus/physicalcluster",
    "/v1/inspect/clusterstatus/virtualclusters/",
)
"""HiveD's answer to ``GET /``."""


EPOCH: Final = datetime.fromtimestamp(0, UTC)
"""In place of times that the scheduler does not know."""


class UnknownError(Exception):
    """There is nothing of that name; the message is for the user."""


def groups(core: DoorCore) -> Json:
    """``GET /v1/inspect/affinitygroups/``."""
    with core.sharing() as give_way:
        state, items = core.book.engine.state, []
        for name in list(state.groups.by_name):
            affinity_group = state.groups.by_name.get(name)  # others may have ended it meanwhile
            if affinity_group is not None:
                items.append(_status(state, affinity_group))
            give_way()
        return {"items": items or None}


def group(core: DoorCore, name: str) -> Json:
    """``GET /v1/inspect/affinitygroups/NAME``."""
    with core.guarded():
        affinity_group = core.book.engine.state.groups.by_name.get(name)
        if affinity_group is None:
            raise UnknownError(f"Affinity group {name} does not exist since it is not allocated or preempting")
        return _status(core.book.engine.state, affinity_group)


def _status(state: State, affinity_group: Group) -> Json:
    """A group with its times as HiveD writes them (RFC 3339)."""
    data = inspect.group_status(state, affinity_group)
    lazy = data["status"].get("lazyPreemptionStatus")
    if lazy and lazy["preemptionTime"] is not None:
        at = datetime.fromtimestamp(lazy["preemptionTime"], UTC)
        lazy["preemptionTime"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return data


def cluster_status(core: DoorCore) -> Json:
    """``GET /v1/inspect/clusterstatus``."""
    return _status_of(core).all()


def physical_cluster(core: DoorCore) -> list[Json]:
    """``GET /v1/inspect/clusterstatus/physicalcluster``."""
    return _status_of(core).physical_cluster()


def virtual_clusters(core: DoorCore, name: str = "") -> object:
    """``GET /v1/inspect/clusterstatus/virtualclusters/[VC]``."""
    with core.guarded():  # to read the state may settle it
        known = name in core.book.engine.state.vcs
    if name and not known:
        raise UnknownError(f"VC {name} not found")
    status = _status_of(core)
    return status.virtual_cluster(name) if name else status.virtual_clusters()


def _status_of(core: DoorCore) -> inspect.ClusterStatus:
    """The status of all cells; only the inspection needs the lock."""
    with core.sharing() as give_way:
        cells = inspection.inspect(core.book.engine.state, between=give_way)
    return inspect.ClusterStatus(cells)


def explain_pod(core: DoorCore, namespace: str, name: str, language: str = "en") -> Json:
    """``GET /v1/explain/pods/NAMESPACE/NAME``: the pod's situation; if it waits, why, and what would let it run.

    Only ``text`` is in the requested language: the rest is for programs. Raises `UnknownError`.
    """
    explanation = _explanation(core, namespace, name)
    return explanation | {"text": [translated(line, language) for line in explanation["text"]]}


def _explanation(core: DoorCore, namespace: str, name: str) -> Json:
    with core.guarded():
        entry = core.table.find(namespace, name)
        if entry is None:
            pod = f"{namespace}/{name}"
            raise UnknownError(text("pod {pod} is not known: it does not ask for this scheduler, or is gone", pod=pod))
        data: Json = {"pod": entry.ref.key, "uid": entry.ref.uid}
        if entry.reading is None:
            assert entry.problem is not None  # noqa: S101 - one of the two
            message = text("Pod {pod} cannot be read: {problem}", pod=entry.ref.key, problem=entry.problem.message)
            return data | {"situation": "refused", "text": [message]}
        booked = core.book.pods.get(entry.ref.uid)
        incomplete = gangs.missing(core, entry)
        note = [_indented(text("It {does}.", does=incomplete))] if incomplete else []
        if booked is not None and booked.info is not None:
            running = _running(core, entry)
            return data | running | {"text": [*running["text"], *note]}
        try:
            if (refusal := core.refusal(entry)) is not None:
                raise refusal
            if reason := core.starts.obstacle(entry.reading.request):
                return data | _behind(core, entry, reason)
            if reason := core.over_limit(entry.reading.request):
                head = {"situation": "held back", "group": entry.reading.request.group}
                return data | head | {"text": [text("Pod {pod} waits: {why}.", pod=entry.ref.key, why=reason), *note]}
            if (maintenance := _maintenance(core, entry)) is not None:
                return data | maintenance
            explanation, latest = (
                explain(core.book.engine, entry.reading.request),
                core.starts.latest(entry.reading.request),
            )
            ahead = core.starts.turns.ahead(entry.reading.request, core.starts.changes)
        except RequestError as error:
            message = text("Pod {pod} was refused: {problem}", pod=entry.ref.key, problem=error.message)
            return data | {"situation": "refused", "text": [message]}
        kind = {PodVerdict.BIND: "ready", PodVerdict.PREEMPT: "preempting"}.get(explanation.decision, "waiting")
        return data | {
            "situation": kind,
            "group": entry.reading.request.group,
            "text": [*render(explanation), *map(_indented, (*start_lines(latest), *ahead_lines(ahead))), *note],
            "explanation": to_data(explanation),
            **({} if latest is None else {"start": asdict(latest)}),
            **({} if ahead is None else {"ahead": asdict(ahead)}),
        }


def _behind(core: DoorCore, entry: PodEntry, why: str) -> Json:
    """The explanation of a pod that would delay a promised start."""
    assert entry.reading is not None  # noqa: S101 - asked before
    request = entry.reading.request
    longest = core.starts.longest(request)
    hint = [] if longest is None else [_indented(longest_line(longest))]
    cause = "backfill" if request.guaranteed else "order"
    situation = cause if core.starts.obstruction(request) is None else "reservation"
    latest = core.starts.latest(request) if situation == "backfill" else None
    head = text("Pod {pod} waits: {why}.", pod=entry.ref.key, why=why)
    lines = [head, *map(_indented, start_lines(latest)), *hint]
    start = {} if latest is None else {"start": asdict(latest)}
    return {"situation": situation, "group": request.group, "longest": longest, "text": lines, **start}


def _maintenance(core: DoorCore, entry: PodEntry) -> Json | None:
    """The explanation of a pod that only maintenance windows keep waiting."""
    assert entry.reading is not None  # noqa: S101 - asked before
    request, now = entry.reading.request, windows.now_of(core)
    waiting_job = JobExplanation(entry.ref.key, JobState.WAITING, JobSituation.NO_ROOM)
    explanation = waits_for_windows(
        waiting_job, core.book.engine, request, entry.limit, core.starts.windows_of(entry), now, EPOCH
    )
    if explanation is None:
        return None
    longest = [] if explanation.longest is None else [_indented(longest_line(explanation.longest))]
    head = text(
        "Pod {pod} waits for maintenance: it would still be running when the maintenance starts.", pod=entry.ref.key
    )
    return {
        "situation": "maintenance",
        "group": request.group,
        "longest": explanation.longest,
        "text": [head, *map(_indented, closing_lines(explanation.windows)), *longest],
        "windows": [asdict(window) for window in explanation.windows],
    }


def _running(core: DoorCore, entry: PodEntry) -> Json:
    state = core.book.engine.state
    booked = core.book.pods[entry.ref.uid]
    info, name = booked.info, booked.request.group
    assert info is not None  # noqa: S101 - it runs
    affinity_group = state.groups.by_name.get(name)
    instances, devices = core.spec.mig_instances(info.chain), isolation_text(info.devices)
    if instances:
        migs = isolation_text(info.devices, instances)
        devices = text("{instances} (leaf cells {cells})", instances=migs, cells=devices)
    lines = [
        text(
            "Pod {pod} runs on node {node}, devices {devices} (group {group}).",
            pod=entry.ref.key,
            node=info.node,
            devices=devices,
            group=name,
        )
    ]
    hold = "opportunistic" if booked.request.priority < 0 else "guaranteed"
    if affinity_group is not None and affinity_group.priority >= 0 and not pod_events.guaranteed(affinity_group):
        hold = "lazily preempted" if affinity_group.virtual is None else "unaccounted"
        winner = affinity_group.preemptor
        lines.append(
            text("  It lost its guarantee to {group} and keeps running without one.", group=winner)
            if winner and winner != name  # a recovery names the group itself
            else text("  It lost its guarantee and keeps running without one.")
        )
    else:
        lines.append(text("  It is opportunistic.") if hold == "opportunistic" else text("  It is guaranteed."))
    if affinity_group is not None and affinity_group.state is GroupState.BEING_PREEMPTED:
        reserver = state.occupancy.reserver
        preemptor = next(
            (reserver[leaf] for leaf in affinity_group.leaves() if leaf in reserver), text("another group")
        )
        lines.append(text("  It is being preempted: {group} waits for its devices.", group=preemptor))
    if not booked.bound:
        reason = reclaim.obstacle_on(core, entry, info.node)
        lines.append(
            text("  It is not bound yet: node {node} would not take it now: {why}.", node=info.node, why=reason)
            if reason
            else text("  Kubernetes has not confirmed the binding yet.")
        )
    return {
        "situation": "running" if booked.bound else "assumed",
        "group": name,
        "node": info.node,
        "devices": list(info.devices),
        "hold": hold,
        "text": lines,
    }


def _indented(line: str) -> Text:
    """A line below a pod's first one, still translatable."""
    return joined("", ("  ", line))


def picture(core: DoorCore, cluster: str) -> Picture:
    """The current cells, as ``paictl cluster view`` draws them."""
    with core.sharing() as give_way:
        state, now = core.book.engine.state, from_unix(core.wall())
        waiting = [
            entry
            for entry in core.table
            if entry.reading is not None and entry.cached is not None and not entry.cached.node
        ]
        cells = inspection.inspect(state, between=give_way)
        return Picture(
            cluster=cluster,
            now=now,
            epoch=EPOCH,
            chains=chain_pictures(cells),
            vcs=vc_pictures(cells, Counter(_vc(entry) for entry in waiting)),
            nodes=tuple(_nodes(core, give_way)),
            jobs=tuple(_jobs(core, waiting, now)),
            free=free_cells(state, give_way),
            note="" if core.is_open else "the scheduler is starting: it does not know all pods yet",
        )


def _vc(entry: PodEntry) -> str:
    return entry.reading.request.vc if entry.reading else ""


def _nodes(core: DoorCore, give_way: Callable[[], None]) -> Iterator[NodeView]:
    for name in core.book.engine.state.physical.nodes:
        yield _node(core, name)
        give_way()


def _node(core: DoorCore, name: str) -> NodeView:
    state, status = core.book.engine.state, core.health.nodes.get(name)
    leaves = [leaf for cell in state.physical.nodes[name] for leaf in state.physical.leaves(cell)]
    condition = NodeCondition.READY
    if name in core.health.bad:
        cordoned = status is not None and status.ready and not status.schedulable
        condition = NodeCondition.CORDONED if cordoned else NodeCondition.FAILED
    kind = state.physical.chains[state.physical.chain[leaves[0]]].leaf_type if leaves else ""
    machine = MachineSpec(name, "", NodeRole.WORKER, kind, device_type=kind, devices=len(leaves))
    used = sum(leaf in state.occupancy.user for leaf in leaves)
    return NodeView(machine, condition, EPOCH, used, reason=core.health.bad.get(name, ""))


def _jobs(core: DoorCore, waiting: list[PodEntry], now: datetime) -> list[JobView]:
    """Groups that hold devices, and groups with waiting pods."""
    shown: dict[str, JobView] = {}
    for gang in core.book.engine.state.groups.by_name.values():
        devices = sum(size * number for size, number in gang.members)
        used = sum(size for (size, _), row in zip(gang.members, gang.pods, strict=True) for uid in row if uid)
        running = JobState.WAITING if gang.state is GroupState.PREEMPTING else JobState.RUNNING
        shown[gang.name] = JobView(
            gang.name,
            gang.vc,
            str(gang.priority),
            running,
            now,
            devices,
            now if used else None,
            number=len(shown) + 1,
            used=used,
        )
    for entry in waiting:
        if entry.reading is None or entry.cached is None or entry.reading.request.group in shown:
            continue
        request = entry.reading.request
        devices = sum(size * number for size, number in request.members)
        shown[request.group] = JobView(
            request.group,
            request.vc,
            str(request.priority),
            JobState.WAITING,
            now,
            devices,
            number=len(shown) + 1,
            reason=entry.cached.reason,
        )
    return list(shown.values())


def decisions(core: DoorCore, door: str) -> Json:
    """``GET /v1/inspect/decisions``: what the core was told and decided, for playback (`scheduler.playback`).

    Also for a core that has stopped or is not open yet. Only the copying needs the lock.
    """
    with core.lock:
        record, made_at = core.book.record(), core.wall()
    return encode(record, {"paictl": __version__, "door": door, "made": made_at})


class ViewCache:
    """Caches expensive answers: readers must not slow down scheduling.

    An answer is made again as soon as something has changed, but making it never takes more than about a tenth of the
    time.
    """

    SHARE: Final = 10
    MOST: Final = 64
    """Answers that are cached."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._answers: dict[str, tuple[float, DoorCore, int, bytes]] = {}

    def peek(self, key: str, core: DoorCore) -> bytes | None:
        """The cached answer to a question (a path) at a core, None if it is too old."""
        cached = self._answers.get(key)
        if cached is None or cached[1] is not core:
            return None
        return cached[3] if cached[2] == core.book.engine.version or self.clock() < cached[0] else None

    def get(self, key: str, core: DoorCore, make: Callable[[], bytes]) -> bytes:
        """The answer to a question at a core, made if necessary."""
        if (cached := self.peek(key, core)) is not None:
            return cached
        began, version = self.clock(), core.book.engine.version
        data, now = make(), self.clock()
        if len(self._answers) >= self.MOST:
            self._answers.clear()
        self._answers[key] = now + self.SHARE * (now - began), core, version, data
        return data
