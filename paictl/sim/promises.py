"""What tenants get from a promise: clusters of their own, devices anywhere, or cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from paictl.cells.chain import Chain, build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec as HivedSpec
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim import parallel
from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import Cluster, ClusterShape, Devices, Node
from paictl.sim.job import Job
from paictl.sim.parallel import within
from paictl.sim.placement.cells import rooms
from paictl.sim.run import FINISHED, RunResult
from paictl.sim.traces.source import TraceError
from paictl.units import Millis


class PromiseKind(StrEnum):
    """The kinds of promises that can be compared."""

    PRIVATE = "private"
    """Each VC has a cluster of its own, as large as its promise."""
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
    """Where it last ran."""
    despite: Millis
    """For how much of its waiting time its VC had enough free devices by count."""


@frozen
class PolicyRun:
    """A trace under one kind of promise."""

    policy: PromiseKind
    jobs: tuple[JobRun, ...]
    """In the order of the trace."""
    pieces: float
    """Free devices on partly used nodes, on average over the time in which anything ran."""


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
    """Jobs that waited although their VC had enough free devices by count."""


def play(
    kind: PromiseKind,
    jobs: Sequence[Job],
    hived: HivedSpec,
    spec: ClusterShape,
    part: Callable[[float], None] | None = None,
    kept: KeptRuns | None = None,
) -> PolicyRun:
    """Play a trace under a kind of promise; `spec` is the cluster of the configuration `hived`.

    `part` is called with the fraction that is played. Runs are kept in `kept` in case the command is interrupted.

    Raises `TraceError` if a job could never run there.
    """
    _check(jobs, hived, spec)
    runs: list[tuple[ClusterShape, RunResult]] = []
    played = 0
    for tenant_jobs, request in _requests(kind, jobs, hived, spec):
        progress = None if part is None else within(part, played, len(jobs), len(tenant_jobs))
        (run,) = parallel.play(tenant_jobs, [request], processes=1, part=progress, kept=kept, drop=False)
        runs.append((request.cluster, run))
        played += len(tenant_jobs)
    return _policy_run(kind, jobs, runs)


def play_each(
    kinds: Sequence[PromiseKind],
    jobs: Sequence[Job],
    hived: HivedSpec,
    spec: ClusterShape,
    part: Callable[[float], None],
    kept: KeptRuns | None = None,
) -> dict[PromiseKind, PolicyRun]:
    """`play` for several kinds; `part` is called with the fraction of all that is played."""
    runs = {
        kind: play(kind, jobs, hived, spec, within(part, place, len(kinds)), kept) for place, kind in enumerate(kinds)
    }
    if kept is not None:
        for kind in kinds:
            for _, request in _requests(kind, jobs, hived, spec):
                kept.drop(request)
    return runs


def _requests(
    kind: PromiseKind, jobs: Sequence[Job], hived: HivedSpec, spec: ClusterShape
) -> list[tuple[Sequence[Job], RunRequest]]:
    """The runs that a kind of promise takes, with the jobs of each."""
    if kind is not PromiseKind.PRIVATE:
        return [(jobs, RunRequest(_POLICIES[kind], spec, log=True))]
    requests: list[tuple[Sequence[Job], RunRequest]] = []
    for vc, nodes in private_nodes(hived).items():
        tenant_jobs = [job for job in jobs if job.vc == vc]
        if tenant_jobs:
            promised = {vc: spec.quotas[vc]}, {vc: spec.quotas_by_type[vc]}
            cluster = replace(spec, nodes=nodes, quotas=promised[0], quotas_by_type=promised[1], hived=None)
            requests.append((tenant_jobs, RunRequest(_POLICIES[kind], cluster, log=True)))
    return requests


def tenants(policy_run: PolicyRun) -> list[TenantResult]:
    """What each VC got, in the order in which they first appear in the trace."""
    rows = []
    for vc in dict.fromkeys(ran.job.vc for ran in policy_run.jobs):
        tenant_runs = [ran for ran in policy_run.jobs if ran.job.vc == vc]
        rows.append(
            TenantResult(
                policy_run.policy,
                vc,
                len(tenant_runs),
                wait=sum(ran.waited for ran in tenant_runs) // len(tenant_runs),
                longest=max(ran.waited for ran in tenant_runs),
                completion=sum(ran.completion for ran in tenant_runs) // len(tenant_runs),
                blocked=sum(ran.despite > 0 for ran in tenant_runs),
            )
        )
    return rows


def worse_off(policy_run: PolicyRun, private: PolicyRun) -> list[str]:
    """The VCs with a job that waited longer than it would have in the VC's own cluster."""
    alone = {ran.job.id: ran.waited for ran in private.jobs}
    return list(dict.fromkeys(ran.job.vc for ran in policy_run.jobs if ran.waited > alone[ran.job.id]))


# --- the clusters


def private_nodes(hived: HivedSpec) -> dict[str, tuple[Node, ...]]:
    """By VC: the nodes of a cluster of its own that holds exactly what it is promised.

    A promised cell above node level gives several nodes, one below it a node as small as the cell.
    """
    chains = build_chains(hived)
    pinned = pinned_levels(hived, chains)
    nodes_of: dict[str, tuple[Node, ...]] = {}
    for vc in hived.virtual_clusters:
        sizes: list[tuple[int, str]] = []
        for name, level, _ in preassigned_levels(vc, chains, pinned):
            chain = chains[name]
            size = min(chain.leaves[level], _node_size(chain))
            sizes += [(size, chain.leaf_type)] * chain.nodes(level)
        nodes_of[vc.name] = tuple(Node(f"{vc.name}-{place}", *row) for place, row in enumerate(sizes, 1))
    return nodes_of


def _node_size(chain: Chain) -> int:
    return chain.leaves[chain.node_level]


def _check(jobs: Sequence[Job], hived: HivedSpec, spec: ClusterShape) -> None:
    promised = rooms(hived)
    pinned = {vc.name: vc.pinned_ids for vc in hived.virtual_clusters}
    for i, job in enumerate(jobs):
        if job.vc not in spec.quotas:
            names = ", ".join(spec.quotas)
            message = f"no virtual cluster {job.vc!r}"
            raise TraceError(message, where=f"jobs[{i}].vc", hint=text("one of: {names}", names=names))
        if job.pinned_cell and job.pinned_cell not in pinned[job.vc]:
            names = ", ".join(pinned[job.vc])
            raise TraceError(
                text("virtual cluster {vc} has no pinned cell {name!r}", vc=job.vc, name=job.pinned_cell),
                where=f"jobs[{i}].pinned",
                hint=text("one of: {names}", names=names) if names else None,
            )
        promised_rooms = promised.get((job.vc, job.pinned_cell), ())
        if not any(room.holds(job.gpu_type, job.gpus) for room in promised_rooms):
            raise _never(job)


def _never(job: Job) -> TraceError:
    shape = f"{job.gpus // job.pod} × {job.pod}" if 0 < job.pod < job.gpus else str(job.gpus)
    devices = f"{shape} {job.gpu_type}" if job.gpu_type else shape
    promise = f"{job.vc}/{job.pinned_cell}" if job.pinned_cell else job.vc
    return TraceError(
        text(
            "job {id!r} can never run: {shape} devices do not fit into the promise of {vc}",
            id=job.id,
            shape=devices,
            vc=promise,
        ),
        hint="request fewer devices, or promise the virtual cluster more; a job must fit into one chain of cells",
    )


# --- results


def _policy_run(kind: PromiseKind, jobs: Sequence[Job], runs: Sequence[tuple[ClusterShape, RunResult]]) -> PolicyRun:
    job_runs: dict[str, JobRun] = {}
    pieces = 0.0
    by_id = {job.id: job for job in jobs}
    for spec, result in runs:
        replayed = _LogReplay(spec, by_id)
        replayed.read(result)
        pieces += replayed.pieces / replayed.busy if replayed.busy else 0.0
        for outcome in result.outcomes:
            job = by_id[outcome.id]
            if outcome.ending not in FINISHED or outcome.waiting is None or outcome.jct is None:
                raise _never(job)
            job_runs[job.id] = JobRun(
                job, outcome.waiting, outcome.jct, replayed.nodes[job.id], Millis(replayed.despite.get(job.id, 0))
            )
    return PolicyRun(kind, tuple(job_runs[job.id] for job in jobs), round(pieces, 1))


class _LogReplay:
    """Replays the log of a run: which job had which devices when, and which could have had them by count."""

    def __init__(self, spec: ClusterShape, jobs: Mapping[str, Job]) -> None:
        self.jobs = jobs
        self.cluster = Cluster(spec)
        self.left = {vc: dict(promised) for vc, promised in spec.quotas_by_type.items()}
        """The unused devices of each promise, by device type."""
        self.used = [0] * len(spec.nodes)
        self.devices_of: dict[str, Devices] = {}
        self.waiting: dict[str, Job] = {}
        self.nodes: dict[str, tuple[str, ...]] = {}
        self.despite: dict[str, int] = {}
        self.pieces = self.busy = 0
        """Areas: devices times milliseconds, and milliseconds."""

    def read(self, result: RunResult) -> None:
        """From the first event to the last."""
        now = result.log[0].time if result.log else 0
        for entry in result.log:
            self._advance(entry.time - now)
            now = entry.time
            self._put(entry.job, entry.devices)
            if entry.what in FINISHED:
                self.waiting.pop(entry.job, None)

    def _put(self, name: str, devices: Devices) -> None:
        job = self.jobs[name]
        node_of, before = self.cluster.node_of, self.devices_of.pop(name, ())
        left, type_of = self.left[job.vc], self.cluster.type_of
        for change, changed in ((-1, before), (1, devices)):
            for device in changed:
                self.used[node_of[device]] += change
                left[type_of[device]] -= change
        if devices:
            self.devices_of[name] = devices
            self.waiting.pop(name, None)
            self.nodes[name] = tuple(self.cluster.nodes[node_of[device]].name for device in devices)
        else:
            self.waiting[name] = job

    def _advance(self, span: int) -> None:
        if not span:
            return
        for name, job in self.waiting.items():
            left = self.left[job.vc]
            if any(job.gpus <= left[kind] for kind in left if job.gpu_type in (None, kind)):
                self.despite[name] = self.despite.get(name, 0) + span
        if self.devices_of:
            self.busy += span
            sizes = self.cluster.nodes
            self.pieces += span * sum(sizes[node].devices - used for node, used in enumerate(self.used) if used)
