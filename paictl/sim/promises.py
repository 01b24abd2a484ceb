"""What tenants get of a promise: in clusters of their own, under one of devices anywhere, under one of cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from paictl.cells.chain import Chain, build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec as HivedSpec
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim import parallel
from paictl.sim.cluster import Cluster, ClusterShape, Devices, Node
from paictl.sim.job import Job
from paictl.sim.kept import KeptRuns, RunRequest
from paictl.sim.parallel import within
from paictl.sim.placement.cells import rooms
from paictl.sim.run import FINISHED, RunResult
from paictl.sim.traces.source import TraceError
from paictl.units import Millis


class PromiseKind(StrEnum):
    """The kinds of promises that can be compared."""

    PRIVATE = "private"
    """Every VC has a cluster of its own, as large as its promise."""
    QUOTA = "quota"
    """One cluster; a VC is promised a number of devices, anywhere."""
    CELLS = "cells"
    """One cluster; a VC is promised cells."""


_POLICIES = {PromiseKind.PRIVATE: "quota", PromiseKind.QUOTA: "quota", PromiseKind.CELLS: "hived"}


@frozen
class JobRun:
    """A job that has run; spans are in milliseconds."""

    job: Job
    waited: Millis
    """All time without devices."""
    completion: Millis
    nodes: tuple[str, ...]
    """Where it ran at last."""
    despite: Millis
    """How much of its waiting time the count of its VC would have let it run."""


@frozen
class PolicyRun:
    """A trace under one kind of promise."""

    policy: PromiseKind
    jobs: tuple[JobRun, ...]
    """In the order of the trace."""
    pieces: float
    """Free devices on nodes that are partly used, on average over the time in which anything ran."""


@frozen
class TenantResult:
    """What one VC got under one policy; spans are in milliseconds."""

    policy: PromiseKind
    vc: str
    jobs: int
    wait: int
    """Mean."""
    longest: int
    completion: int
    """Mean, from submission to end."""
    blocked: int
    """Jobs that waited although the count of the VC left enough devices free."""


def play(
    kind: PromiseKind,
    jobs: Sequence[Job],
    hived: HivedSpec,
    spec: ClusterShape,
    part: Callable[[float], None] | None = None,
    kept: KeptRuns | None = None,
) -> PolicyRun:
    """Play a trace under a kind of promise; `spec` is the cluster of the configuration `hived`.

    `part` is called with the part that is played. Runs are kept in `kept` for a command that is interrupted.

    Raises `TraceError` if a job could never run there.
    """
    _check(jobs, hived, spec)
    runs: list[tuple[ClusterShape, RunResult]] = []
    played = 0
    for mine, request in _requests(kind, jobs, hived, spec):
        told = None if part is None else within(part, played, len(jobs), len(mine))
        (run,) = parallel.play(mine, [request], processes=1, part=told, kept=kept, drop=False)
        runs.append((request.cluster, run))
        played += len(mine)
    return _course(kind, jobs, runs)


def play_each(
    kinds: Sequence[PromiseKind],
    jobs: Sequence[Job],
    hived: HivedSpec,
    spec: ClusterShape,
    part: Callable[[float], None],
    kept: KeptRuns | None = None,
) -> dict[PromiseKind, PolicyRun]:
    """`play` for several kinds; `part` is called with the part of all that is played."""
    found = {
        kind: play(kind, jobs, hived, spec, within(part, place, len(kinds)), kept) for place, kind in enumerate(kinds)
    }
    if kept is not None:
        for kind in kinds:
            for _, request in _requests(kind, jobs, hived, spec):
                kept.drop(request)
    return found


def _requests(
    kind: PromiseKind, jobs: Sequence[Job], hived: HivedSpec, spec: ClusterShape
) -> list[tuple[Sequence[Job], RunRequest]]:
    """The runs that a kind of promise takes, with the jobs of each."""
    if kind is not PromiseKind.PRIVATE:
        return [(jobs, RunRequest(_POLICIES[kind], spec, log=True))]
    found: list[tuple[Sequence[Job], RunRequest]] = []
    for vc, nodes in private_nodes(hived).items():
        mine = [job for job in jobs if job.vc == vc]
        if mine:
            promised = {vc: spec.quotas[vc]}, {vc: spec.quotas_by_type[vc]}
            own = replace(spec, nodes=nodes, quotas=promised[0], quotas_by_type=promised[1], hived=None)
            found.append((mine, RunRequest(_POLICIES[kind], own, log=True)))
    return found


def tenants(course: PolicyRun) -> list[TenantResult]:
    """What each VC got, in the order in which they first appear in the trace."""
    rows = []
    for vc in dict.fromkeys(ran.job.vc for ran in course.jobs):
        mine = [ran for ran in course.jobs if ran.job.vc == vc]
        rows.append(
            TenantResult(
                course.policy,
                vc,
                len(mine),
                wait=sum(ran.waited for ran in mine) // len(mine),
                longest=max(ran.waited for ran in mine),
                completion=sum(ran.completion for ran in mine) // len(mine),
                blocked=sum(ran.despite > 0 for ran in mine),
            )
        )
    return rows


def worse_off(course: PolicyRun, private: PolicyRun) -> list[str]:
    """The VCs of which some job waited longer than it would have in the VC's own cluster."""
    alone = {ran.job.id: ran.waited for ran in private.jobs}
    return list(dict.fromkeys(ran.job.vc for ran in course.jobs if ran.waited > alone[ran.job.id]))


# --- the clusters


def private_nodes(hived: HivedSpec) -> dict[str, tuple[Node, ...]]:
    """By VC: the nodes of a cluster that holds what the VC is promised and nobody else.

    A promised cell above node level gives several nodes, one below it a node as small as the cell.
    """
    chains = build_chains(hived)
    pinned = pinned_levels(hived, chains)
    found: dict[str, tuple[Node, ...]] = {}
    for vc in hived.virtual_clusters:
        sizes: list[tuple[int, str]] = []
        for name, level, _ in preassigned_levels(vc, chains, pinned):
            chain = chains[name]
            size = min(chain.leaves[level], _node_size(chain))
            sizes += [(size, chain.leaf_type)] * chain.nodes(level)
        found[vc.name] = tuple(Node(f"{vc.name}-{place}", *row) for place, row in enumerate(sizes, 1))
    return found


def _node_size(chain: Chain) -> int:
    return chain.leaves[chain.node_level]


def _check(jobs: Sequence[Job], hived: HivedSpec, spec: ClusterShape) -> None:
    promised = rooms(hived)
    pinned = {vc.name: vc.pinned_ids for vc in hived.virtual_clusters}
    for i, job in enumerate(jobs):
        if job.vc not in spec.quotas:
            known = ", ".join(spec.quotas)
            said = f"no virtual cluster {job.vc!r}"
            raise TraceError(said, where=f"jobs[{i}].vc", hint=text("one of: {names}", names=known))
        if job.pinned_cell and job.pinned_cell not in pinned[job.vc]:
            known = ", ".join(pinned[job.vc])
            raise TraceError(
                text("virtual cluster {vc} has no pinned cell {name!r}", vc=job.vc, name=job.pinned_cell),
                where=f"jobs[{i}].pinned",
                hint=text("one of: {names}", names=known) if known else None,
            )
        own = promised.get((job.vc, job.pinned_cell), ())
        if not any(room.holds(job.gpu_type, job.gpus) for room in own):
            raise _never(job)


def _never(job: Job) -> TraceError:
    shape = f"{job.gpus // job.pod} × {job.pod}" if 0 < job.pod < job.gpus else str(job.gpus)
    what = f"{shape} {job.gpu_type}" if job.gpu_type else shape
    where = f"{job.vc}/{job.pinned_cell}" if job.pinned_cell else job.vc
    return TraceError(
        text(
            "job {id!r} can never run: {shape} devices do not fit into the promise of {vc}",
            id=job.id,
            shape=what,
            vc=where,
        ),
        hint="request fewer devices, or promise the virtual cluster more; a job must fit into one chain of cells",
    )


# --- what happened


def _course(kind: PromiseKind, jobs: Sequence[Job], runs: Sequence[tuple[ClusterShape, RunResult]]) -> PolicyRun:
    found: dict[str, JobRun] = {}
    pieces = 0.0
    known = {job.id: job for job in jobs}
    for spec, result in runs:
        story = _Story(spec, known)
        story.read(result)
        pieces += story.pieces / story.busy if story.busy else 0.0
        for outcome in result.outcomes:
            job = known[outcome.id]
            if outcome.ending not in FINISHED or outcome.waiting is None or outcome.jct is None:
                raise _never(job)
            found[job.id] = JobRun(
                job, outcome.waiting, outcome.jct, story.nodes[job.id], Millis(story.despite.get(job.id, 0))
            )
    return PolicyRun(kind, tuple(found[job.id] for job in jobs), round(pieces, 1))


class _Story:
    """The log of a run, told once: who had what when, and who could have had it by count."""

    def __init__(self, spec: ClusterShape, known: Mapping[str, Job]) -> None:
        self.known = known
        self.cluster = Cluster(spec)
        self.left = {vc: dict(promised) for vc, promised in spec.quotas_by_type.items()}
        """Of each promise, what is not in use, by device type."""
        self.used = [0] * len(spec.nodes)
        self.has: dict[str, Devices] = {}
        self.waiting: dict[str, Job] = {}
        self.nodes: dict[str, tuple[str, ...]] = {}
        self.despite: dict[str, int] = {}
        self.pieces = self.busy = 0
        """Areas: devices times milliseconds, and milliseconds."""

    def read(self, result: RunResult) -> None:
        """From the first event to the last."""
        now = result.log[0].time if result.log else 0
        for entry in result.log:
            self._pass(entry.time - now)
            now = entry.time
            self._put(entry.job, entry.devices)
            if entry.what in FINISHED:
                self.waiting.pop(entry.job, None)

    def _put(self, name: str, devices: Devices) -> None:
        job = self.known[name]
        node_of, before = self.cluster.node_of, self.has.pop(name, ())
        left, type_of = self.left[job.vc], self.cluster.type_of
        for change, changed in ((-1, before), (1, devices)):
            for device in changed:
                self.used[node_of[device]] += change
                left[type_of[device]] -= change
        if devices:
            self.has[name] = devices
            self.waiting.pop(name, None)
            self.nodes[name] = tuple(self.cluster.nodes[node_of[device]].name for device in devices)
        else:
            self.waiting[name] = job

    def _pass(self, span: int) -> None:
        if not span:
            return
        for name, job in self.waiting.items():
            left = self.left[job.vc]
            if any(job.gpus <= left[kind] for kind in left if job.gpu_type in (None, kind)):
                self.despite[name] = self.despite.get(name, 0) + span
        if self.has:
            self.busy += span
            sizes = self.cluster.nodes
            self.pieces += span * sum(sizes[node].devices - used for node, used in enumerate(self.used) if used)
