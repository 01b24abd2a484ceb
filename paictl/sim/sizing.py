"""The smallest cluster on which a trace meets a target: how many (more) nodes of a type, found by doubling and halving.

More nodes can make a job wait longer under some policies, so the result is a number of nodes that meets the target
while one node fewer does not; a smaller number that happens to meet it is not searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import Cluster, ClusterShape, Node, mixed
from paictl.sim.engine import GIVE_UP
from paictl.sim.failures import NONE as NO_FAILURES
from paictl.sim.failures import FailureError, FailureModel, failures_of
from paictl.sim.job import Job
from paictl.sim.metrics import figures, percentile
from paictl.sim.parallel import play
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.policies.table import parse
from paictl.sim.run import FINISHED, JobOutcome, RunResult
from paictl.sim.simulate import check_failures
from paictl.sim.specify import cluster_named
from paictl.units import DurationError, parse_duration

NEVER: Final = 10**18
"""Milliseconds: the wait of a job that never starts, the completion time of one that never completes."""
MOST: Final = 4096
"""The default limit of nodes to try."""
_TARGET: Final = re.compile(r"(?:(mean|median|max|p\d{1,2}(?:\.\d+)?)\s+)?(jct|queueing|waiting|makespan)\s*<=\s*(\S+)")
_HINT: Final = "write 'p95 queueing <= 1h': mean, median, p95 or max of jct, queueing or waiting; or 'makespan <= 2d'"


@frozen
class SizingTarget:
    """A bound on a figure."""

    text: str
    statistic: str
    """`mean`, `max`, or `p50`, `p95`, …; empty for the makespan."""
    quantity: str
    bound: int
    """Milliseconds."""

    def value(self, run: RunResult) -> float:
        """The figure in milliseconds; jobs that never started or completed count as `NEVER`."""
        if self.quantity == "makespan":
            return _makespan(run)
        values = sorted(_quantity(self.quantity, outcome) for outcome in run.outcomes)
        if self.statistic == "mean":
            return sum(values) / len(values)
        part = 1.0 if self.statistic == "max" else float(self.statistic[1:]) / 100
        return percentile(values, part) or 0.0


def _quantity(name: str, outcome: JobOutcome) -> int:
    value = getattr(outcome, name) if outcome.ending in FINISHED else None
    return NEVER if value is None else int(value)


def _makespan(run: RunResult) -> float:
    if any(outcome.ending not in FINISHED for outcome in run.outcomes):
        return NEVER
    return max(outcome.end or 0 for outcome in run.outcomes) - min(outcome.submit for outcome in run.outcomes)


def target(written: str) -> SizingTarget:
    """`p95 queueing <= 1h`, `mean jct <= 90m`, `makespan <= 2d`; raises `ParameterError`."""
    match = _TARGET.fullmatch(written.strip().lower())
    if match is None or (match[1] is None) != (match[2] == "makespan"):
        raise ParameterError(text("{written!r} is not a target", written=written), where="--target", hint=_HINT)
    try:
        bound = round(parse_duration(match[3]) * 1000)
    except (DurationError, OverflowError):
        raise ParameterError(
            text("{written!r} is not a target", written=written), where="--target", hint=_HINT
        ) from None
    return SizingTarget(written.strip(), {"median": "p50", None: ""}.get(match[1], match[1]), match[2], bound)


@frozen
class NodeOffer:
    """A kind of node that can be added."""

    type: str
    devices: int
    price: float | None = None
    """Of one node for an hour."""


def offers(nodes: Sequence[str], prices: Sequence[str]) -> list[NodeOffer]:
    """Parse `8` or `V100=8`, and `V100=2.5` (or `2.5` for a single kind); raises `ParameterError`."""
    costs = {}
    for written in prices:
        kind, _, amount = written.rpartition("=")
        if not re.fullmatch(r"\d+(\.\d+)?", amount, re.ASCII):
            raise ParameterError(
                text("{written!r} is not a price", written=written),
                where="--price",
                hint="write V100=2.5: one node for an hour",
            )
        costs[kind] = float(amount)
    node_offers = []
    for written in nodes:
        kind, _, devices = written.rpartition("=")
        if not re.fullmatch(r"[1-9]\d{0,3}", devices, re.ASCII):
            raise ParameterError(
                text("{written!r} is not a node", written=written),
                where="--node",
                hint="write 8, or V100=8: type and devices",
            )
        node_offers.append(NodeOffer(kind or "gpu", int(devices), costs.pop(kind, None)))
    if costs:
        raise ParameterError(
            text("there is a price for {name!r}, but no such node", name=next(iter(costs))),
            where="--price",
            hint=text("nodes: {names}", names=", ".join(nodes)),
        )
    return node_offers


@frozen
class SizingTrial:
    """One number of nodes that was tried."""

    nodes: int
    """Added."""
    devices: int
    """Of the whole cluster."""
    values: tuple[float, ...]
    """Of each target, milliseconds."""
    met: bool
    interruptions: int | None = None
    """How often failures interrupted a job; None if nothing fails."""
    wasted: float | None = None
    """Fraction of the devices' time that failures undid."""


@frozen
class SizingAnswer:
    """The result for one kind of node."""

    offer: NodeOffer
    trials: tuple[SizingTrial, ...]
    """In the order in which they were tried."""
    smallest: SizingTrial | None
    """The smallest that meets all targets; None if none does."""
    reason: str = ""
    """Why there is none."""

    @property
    def price(self) -> float | None:
        """The price of the added nodes for an hour."""
        return None if self.smallest is None or self.offer.price is None else self.offer.price * self.smallest.nodes


def grown(base: ClusterShape | None, offer: NodeOffer, nodes: int) -> ClusterShape:
    """The cluster with this many more nodes."""
    if base is None:
        return mixed([(offer.type, nodes, offer.devices)])
    added = tuple(Node(f"added-{number}", offer.devices, offer.type) for number in range(1, nodes + 1))
    name = f"{base.text} + {nodes} x {offer.type}" if nodes else base.text
    return replace(base, text=name, nodes=(*base.nodes, *added), hived=None if nodes else base.hived)


def size(
    jobs: Sequence[Job],
    offer: NodeOffer,
    targets: Sequence[SizingTarget],
    policy: str,
    *,
    base: ClusterShape | None = None,
    seed: int = 0,
    failures: FailureModel | None = None,
    most: int = MOST,
    tried: Callable[[SizingTrial], None] | None = None,
    part: Callable[[int, float], None] | None = None,
    kept: KeptRuns | None = None,
) -> SizingAnswer:
    """Search for the fewest nodes of a kind; `tried` is called after each trial.

    `failures`: nodes and devices fail, added ones as well as those of `base`; a log names nodes of `base`.

    `part` is called with the number of nodes and the fraction of that trial that is played; trials are kept in `kept`
    until the search is over.
    """
    trials: dict[int, SizingTrial] = {}
    requests: list[RunRequest] = []
    idle = hopeless = False

    def meets(nodes: int) -> bool:
        nonlocal idle, hopeless
        shape = grown(base, offer, nodes)
        request = RunRequest(policy, shape, seed, failures=failures)
        requests.append(request)
        progress = None if part is None else partial(part, nodes)
        (run,) = play(jobs, [request], processes=1, part=progress, kept=kept, drop=False)
        values = tuple(goal.value(run) for goal in targets)
        met = all(value <= goal.bound for value, goal in zip(values, targets, strict=True))
        idle = all(outcome.waiting == 0 for outcome in run.outcomes)
        run_figures = figures(run)
        ended = any(outcome.ending in FINISHED for outcome in run.outcomes)
        tried_all = all(outcome.interruptions for outcome in run.outcomes)  # the others may only lack room
        hopeless = tried_all and not ended and (run_figures.interruptions or 0) >= GIVE_UP
        trials[nodes] = SizingTrial(nodes, run.devices, values, met, run_figures.interruptions, run_figures.wasted)
        if tried is not None:
            tried(trials[nodes])
        return met

    def finish(smallest: SizingTrial | None, reason: str = "") -> SizingAnswer:
        if kept is not None:
            for request in requests:
                kept.drop(request)
        return SizingAnswer(offer, tuple(trials.values()), smallest, reason)

    low = -1 if base is not None else 0
    for high in _doubling(0 if base is not None else 1, most):
        if meets(high):
            break
        low = high
        if idle:
            return finish(None, text("no job waits there, so more nodes cannot help"))
        if hopeless:
            return finish(None, text("no job completes because hardware fails too often; more nodes would not help"))
    else:
        return finish(None, text("not even with {most:,} nodes", most=most))
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    return finish(trials[high])


def _doubling(first: int, most: int) -> Iterator[int]:
    number = first
    while number < most:
        yield number
        number = max(1, 2 * number)
    yield most


def best(answers: Sequence[SizingAnswer]) -> SizingAnswer | None:
    """The cheapest if all have a price, else the one with the fewest devices; None if there is none."""
    met = [answer for answer in answers if answer.smallest is not None]
    if not met:
        return None
    if all(answer.price is not None for answer in met):
        return min(met, key=lambda answer: answer.price or 0.0)
    return min(met, key=lambda answer: answer.smallest.devices if answer.smallest is not None else 0)


class SizingQuestion(NamedTuple):
    """The question: targets that must all be met, kinds of nodes to try, existing nodes, failures."""

    goals: Sequence[SizingTarget]
    kinds: Sequence[NodeOffer]
    base: ClusterShape | None
    failures: FailureModel | None


def question(
    policy: str,
    targets: Sequence[str],
    nodes: Sequence[str],
    prices: Sequence[str],
    cluster: str | None,
    failures: str = NO_FAILURES,
) -> SizingQuestion:
    """Parse the question; everything that is wrong with it is raised before anything is played."""
    policy_kind, _ = parse(policy)
    goals = [target(written) for written in targets]
    kinds = offers(nodes, prices)
    if len({(kind.type, kind.devices) for kind in kinds}) < len(kinds):
        raise ParameterError("the same node twice", where="--node", hint="give each kind once")
    base = cluster_named(cluster) if cluster is not None else None
    if base is not None and any(node.name == "added-1" for node in base.nodes):
        raise ParameterError("it already has a node named added-1", where=cluster, hint="rename it")
    model = failures_of(failures)
    if model is not None and model.log is not None and base is None:
        raise FailureError(
            text("a log names nodes, and there are none before the search"),
            where=failures,
            hint="give --cluster with the nodes of the log, or rates: node=30d,device=180d",
        )
    if model is not None:
        check_failures(model, Cluster(base if base is not None else grown(None, kinds[0], 1)), policy_kind)
    return SizingQuestion(goals, kinds, base, model)
