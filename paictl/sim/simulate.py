"""One trace under one policy on one cluster: what everything above the policies calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.sim.actions import PolicyError
from paictl.sim.cluster import Cluster, ClusterShape, ClusterShapeError
from paictl.sim.engine import Simulation
from paictl.sim.inflate import inflated
from paictl.sim.job import WHOLE, Job, in_order
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Setup
from paictl.sim.policies.external import place_of
from paictl.sim.policies.parameters import ParameterError, as_data
from paictl.sim.policies.table import parse
from paictl.sim.run import JobOutcome, LogEntry, RunResult

LOOK: Final = 500
"""Decisions between two looks at how far a run is."""


def simulate(
    jobs: Sequence[Job],
    spec: ClusterShape,
    policy: str,
    *,
    seed: int = 0,
    inflate: float | None = None,
    log: bool = False,
    check: Callable[[Simulation], None] | None = None,
    part: Callable[[float], None] | None = None,
) -> RunResult:
    """Play jobs (in any order) under `name:key=value,…`.

    Same jobs, cluster, policy and seed: the same result, but for `wall_seconds`. `inflate`: play so many random jobs of
    the trace that they ask for that part of the cluster (`inflate.inflated`). `log`: keep every event. `check` is
    called with the engine after every instant, `part` now and then with the part of the jobs that is played.

    Raises `ParameterError` for a policy that cannot be, `PolicyError` where a policy has a defect.
    """
    kind, parameters = parse(policy)
    cluster = Cluster(spec)
    usable = jobs if kind.shares else _whole(jobs, kind.id)
    ordered = in_order(usable if inflate is None else inflated(usable, cluster.size * WHOLE, inflate, seed))
    _foreign(ordered, cluster)
    history = tuple(job.gpus * job.true_work for job in ordered) if Knowledge.DISTRIBUTION in kind.knows else ()
    tenants: dict[str, int] = {}
    for job in ordered:
        tenants[job.vc] = tenants.get(job.vc, 0) + job.gpus * job.true_work
    requests = tuple(job.request for job in usable) if Knowledge.REQUESTS in kind.knows else ()
    made = kind(parameters, Setup(cluster, seed, history, requests, tenants))
    entries: list[LogEntry] | None = [] if log else None
    outcomes: dict[str, JobOutcome] = {}
    if part is not None:
        check = _watched(check, part, outcomes, len(ordered))
    engine = Simulation(
        cluster, made, ordered, lambda outcome: outcomes.__setitem__(outcome.id, outcome), log=entries, check=check
    )
    start = time.perf_counter()
    try:
        engine.run()
    except PaictlError:
        raise
    except Exception as error:
        place = place_of(kind, error)
        if place is None:
            raise
        raise PolicyError(
            text("policy {name} failed: {error}", name=kind.id, error=f"{type(error).__name__}: {error}"), where=place
        ) from error
    wall = time.perf_counter() - start
    return RunResult(
        policy=kind.id,
        parameters=as_data(parameters),
        cluster=spec.text,
        devices=cluster.size,
        seed=seed,
        outcomes=tuple(outcomes[job.id] for job in ordered),
        intervals=engine.timeline.intervals(),
        counters={**engine.counters, **made.counted()},
        located=made.rates.located,
        log=tuple(entries or ()),
        wall_seconds=wall,
    )


def _watched(
    check: Callable[[Simulation], None] | None,
    part: Callable[[float], None],
    outcomes: Mapping[str, JobOutcome],
    number: int,
) -> Callable[[Simulation], None]:
    """A check that now and then says how far it is: jobs that came and jobs that left, of all."""
    seen = 0

    def watch(engine: Simulation) -> None:
        nonlocal seen
        if check is not None:
            check(engine)
        seen += 1
        if seen % LOOK == 0:
            part((engine.arrived + len(outcomes)) / max(1, 2 * number))

    return watch


def _whole(jobs: Sequence[Job], policy: str) -> Sequence[Job]:
    """The jobs that a policy without shares can play: those with devices."""
    several = sum(bool(job.gpu_types) for job in jobs)
    if several:
        raise ParameterError(
            text("{count} jobs may run on any of several device types, and it knows one or all", count=several),
            where=f"policy {policy}",
            hint="use one that places shares: fgd, bestfit, dotprod, gpupacking, gpuclustering, random",
        )
    return [job for job in jobs if job.gpus]


def _foreign(jobs: Sequence[Job], cluster: Cluster) -> None:
    """Refuse a cluster on which no job of the trace can make any progress."""
    kinds = sorted({kind for job in jobs for kind, rate in job.throughput.items() if rate > 0})
    if jobs and all(job.throughput for job in jobs) and not any(kind in cluster.types for kind in kinds):
        raise ClusterShapeError(
            text(
                "no job of the trace runs on devices of type {names}: their rates are for {kinds}",
                names=", ".join(cluster.types),
                kinds=", ".join(kinds) or "none",
            ),
            where=cluster.spec.text or None,
            hint=text("name the types: --cluster {names}", names=",".join(f"{kind}=2x4" for kind in kinds[:3]))
            if kinds
            else None,
        )
