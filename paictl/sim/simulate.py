"""One trace under one policy on one cluster: what everything above the policies calls."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.sim.actions import PolicyError
from paictl.sim.cluster import Cluster, ClusterShape, ClusterShapeError
from paictl.sim.engine import Simulation
from paictl.sim.failures import DeviceOutages, FailureError, FailureModel
from paictl.sim.generate import inflated
from paictl.sim.job import WHOLE, Job, in_order
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import NO_WINDOWS, Policy, Setup
from paictl.sim.policies.external import place_of
from paictl.sim.policies.parameters import ParameterError, as_data
from paictl.sim.policies.table import POLICIES, parse, policy_class
from paictl.sim.run import JobOutcome, RunResult

LOOK: Final = 500
"""Decisions between two progress reports of a run."""
FEW: Final = 4
"""The same if decisions are so slow that `SLOW` seconds have passed."""
SLOW: Final = 0.2


class PausedError(Exception):
    """A run was asked to stop; with `snapshot`, it resumes between the same two instants."""

    def __init__(self, snapshot: bytes) -> None:
        super().__init__("paused")
        self.snapshot = snapshot


class _Stopped(Exception):  # noqa: N818 - it never leaves this module
    """Raised between two instants."""


class _Course:
    """A run in progress; pickled as a snapshot."""

    def __init__(
        self, cluster: Cluster, policy: Policy, jobs: Sequence[Job], *, log: bool, hardware: DeviceOutages | None
    ) -> None:
        self.outcomes: dict[str, JobOutcome] = {}
        self.wall = 0.0
        self.number = len(jobs)
        self.order = tuple(job.id for job in jobs)
        self.policy = policy
        self.engine = Simulation(cluster, policy, jobs, self.finish, log=[] if log else None, hardware=hardware)

    def finish(self, outcome: JobOutcome) -> None:
        """A job has left."""
        self.outcomes[outcome.id] = outcome

    @property
    def part(self) -> float:
        """The fraction of arrivals and departures that have happened."""
        return (self.engine.arrived + len(self.outcomes)) / max(1, 2 * self.number)


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
    stop: Callable[[], bool] | None = None,
    snapshot: bytes | None = None,
    failures: FailureModel | None = None,
) -> RunResult:
    """Play jobs (in any order) under `name:key=value,…`.

    Same jobs, cluster, policy and seed: the same result, except `wall_seconds`. `inflate`: play random jobs of
    the trace that together request this fraction of the cluster (`generate.inflated`). `log`: keep every event. `check`
    is called with the engine after every instant, `part` now and then with the fraction that is played.

    `failures`: devices fail and are repaired during the run; the cost is in outcomes and counters.

    `stop` is called after every instant: if it returns true, `PausedError` is raised with a snapshot, and the same call
    with that `snapshot` resumes. A snapshot is a pickle: only read what this program wrote.

    Raises `ParameterError` for an invalid policy, `PolicyError` if a policy has a bug.
    """
    kind, parameters = parse(policy)  # also loads the module of a policy from outside, which a snapshot needs
    if snapshot is None:
        course = _new_course(jobs, spec, kind, parameters, seed=seed, inflate=inflate, log=log, failures=failures)
    else:
        course = pickle.loads(snapshot)  # noqa: S301 - our own
    engine = course.engine
    engine.check = _after_instant(check, part, stop, course)
    start = time.perf_counter()
    try:
        engine.run()
    except _Stopped:
        course.wall += time.perf_counter() - start
        raise PausedError(pickle.dumps(course)) from None
    except PaictlError:
        raise
    except Exception as error:
        place = place_of(kind, error)
        if place is None:
            raise
        raise PolicyError(
            text("policy {name} failed: {error}", name=kind.id, error=f"{type(error).__name__}: {error}"), where=place
        ) from error
    played_policy = course.policy
    return RunResult(
        policy=kind.id,
        parameters=as_data(parameters),
        cluster=spec.text,
        devices=engine.cluster.size,
        seed=seed,
        outcomes=tuple(course.outcomes[name] for name in course.order),
        intervals=engine.timeline.intervals(),
        counters={**engine.counters, **played_policy.counted()},
        located=played_policy.rates.located,
        log=tuple(engine.log or ()),
        failures=failures.text if failures is not None else "",
        wall_seconds=course.wall + time.perf_counter() - start,
    )


def _new_course(
    jobs: Sequence[Job],
    spec: ClusterShape,
    kind: type[Policy],
    parameters: object,
    *,
    seed: int,
    inflate: float | None,
    log: bool,
    failures: FailureModel | None,
) -> _Course:
    """A run before its first instant."""
    cluster = Cluster(spec)
    if failures is not None:
        check_failures(failures, cluster, kind)
    usable = jobs if kind.shares else _jobs_with_devices(jobs, kind.id)
    ordered = in_order(usable if inflate is None else inflated(usable, cluster.size * WHOLE, inflate, seed))
    _check_types(ordered, cluster)
    history = tuple(job.gpus * job.true_work for job in ordered) if Knowledge.DISTRIBUTION in kind.knows else ()
    tenants: dict[str, int] = {}
    for job in ordered:
        tenants[job.vc] = tenants.get(job.vc, 0) + job.gpus * job.true_work
    requests = tuple(job.request for job in usable) if Knowledge.REQUESTS in kind.knows else ()
    hardware = DeviceOutages(failures, cluster, seed, ordered[0].submit) if failures is not None and ordered else None
    windows = failures.windows() if failures is not None else NO_WINDOWS
    policy = kind(parameters, Setup(cluster, seed, history, requests, tenants, windows))
    return _Course(cluster, policy, ordered, log=log, hardware=hardware)


def check_failures(failures: FailureModel, cluster: Cluster, kind: type[Policy]) -> None:
    """Reject failures that the cluster cannot have, or a policy that does not support failures."""
    if (problem := failures.problem(cluster)) is not None:
        names = listed([node.name for node in cluster.nodes], 5)
        hint = text("nodes of {cluster}: {names}", cluster=cluster.spec.text, names=names)
        raise FailureError(problem, where=failures.text, hint=hint)
    if not kind.endures:
        raise ParameterError(
            text("it does not support failures"),
            where=f"policy {kind.id}",
            hint=text(
                "one of: {names}; a policy of your own: docs/adding-a-policy.md (endures)",
                names=", ".join(name for name in POLICIES if policy_class(name).endures),
            ),
        )


def _after_instant(
    check: Callable[[Simulation], None] | None,
    part: Callable[[float], None] | None,
    stop: Callable[[], bool] | None,
    course: _Course,
) -> Callable[[Simulation], None] | None:
    """The function to call after every instant: the caller's check, progress reports, and the test for a stop."""
    if part is None and stop is None:
        return check
    decisions, last = 0, time.monotonic()

    def watch(engine: Simulation) -> None:
        nonlocal decisions, last
        if check is not None:
            check(engine)
        if stop is not None and stop():
            raise _Stopped
        decisions += 1
        if part is not None and (decisions % LOOK == 0 or (decisions % FEW == 0 and time.monotonic() - last > SLOW)):
            last = time.monotonic()
            part(course.part)

    return watch


def _jobs_with_devices(jobs: Sequence[Job], policy: str) -> Sequence[Job]:
    """The jobs that a policy without fractional devices can play: those with devices."""
    multi_typed = sum(bool(job.gpu_types) for job in jobs)
    if multi_typed:
        raise ParameterError(
            text(
                "{count} jobs may run on any of several device types, but the policy supports only one type or all",
                count=multi_typed,
            ),
            where=f"policy {policy}",
            hint="use one that places shares: fgd, bestfit, dotprod, gpupacking, gpuclustering, random",
        )
    return [job for job in jobs if job.gpus]


def _check_types(jobs: Sequence[Job], cluster: Cluster) -> None:
    """Reject a cluster on which no job of the trace can make any progress."""
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
