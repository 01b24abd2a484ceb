"""The part of a scheduler around the core: the queue of waiting pods, and who is tried when.

Pods are tried by priority, then by submission, as OpenPAI's per-job priority classes make kube-scheduler do. What has
just been refused is not tried again before something was released that can matter to it: same state, same decision.
That makes a round cost as much as there are *different* requests, not as there are waiting pods.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.decision import Bind, BindInfo, Decision, Phase, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import GroupChange, NodeHealth, Outcome, PodGone, PodRecovered
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.request import PodRequest

Signature: TypeAlias = tuple[object, ...]
"""Everything of a request that its group's placement depends on."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod runs now."""

    uid: str
    info: BindInfo


@dataclass(frozen=True, slots=True)
class Evicted:
    """Pods that must go, so that another group can run."""

    uids: tuple[str, ...]
    preemptor: str


@dataclass(frozen=True, slots=True)
class Demoted:
    """A group lost its guarantee (lazy preemption) and runs on."""

    group: str
    preemptor: str


Action: TypeAlias = Bound | Evicted | Demoted


@dataclass(slots=True)
class _Bucket:
    """Waiting groups that ask for the same, in the order in which they are tried."""

    order: list[tuple[int, int, str]] = field(default_factory=list)
    """(−priority, number of the job, group)"""
    refused: bool = False


class Dispatcher:
    """Waiting pods and the engine that places them; stands still while there is no engine."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._pods: dict[str, PodRequest] = {}
        """Waiting pods by uid."""
        self._groups: dict[str, dict[str, None]] = {}
        """Uids of the waiting pods of a group, in order."""
        self._buckets: dict[Signature, _Bucket] = {}
        self._numbers: dict[str, int] = {}
        self._joining: dict[str, None] = {}
        """Groups with waiting pods of which others run already: these have their places."""

    # --- the queue

    def add(self, request: PodRequest, number: int) -> None:
        """A pod waits; `number` is its job's place in the order of submission."""
        self._pods[request.uid] = request
        pods = self._groups.setdefault(request.group, {})
        if not pods:
            self._numbers[request.group] = number
            bucket = self._buckets.setdefault(signature(request), _Bucket())
            insort(bucket.order, (-request.priority, number, request.group))
        pods[request.uid] = None
        self._join(request.group)

    def _join(self, group: str) -> None:
        if self.engine is not None and group in self.engine.state.groups.by_name:
            self._joining[group] = None

    def remove(self, uid: str, now: float) -> list[Outcome]:
        """A pod is gone, whether it waited or ran; what it held is free."""
        request = self._pods.pop(uid, None)
        if request is not None:
            self._leave(request)
        return self.observe(PodGone(uid), now)

    def _leave(self, request: PodRequest) -> None:
        pods = self._groups[request.group]
        del pods[request.uid]
        if not pods:
            del self._groups[request.group]
            self._joining.pop(request.group, None)
            key = signature(request)
            bucket = self._buckets[key]
            bucket.order.remove((-request.priority, self._numbers.pop(request.group), request.group))
            if not bucket.order:
                del self._buckets[key]

    def dump(self) -> dict[str, list[str]]:
        """Uids of the waiting pods in the order in which they came, and the first group of each refused kind."""
        refused = [bucket.order[0][2] for bucket in self._buckets.values() if bucket.refused]
        return {"pods": list(self._pods), "refused": sorted(refused)}

    def refuse(self, groups: Iterable[str]) -> None:
        """Mark the kinds of request of some waiting groups as refused, as `dump` found them."""
        for group in groups:
            uid = next(iter(self._groups[group]))
            self._buckets[signature(self._pods[uid])].refused = True

    # --- the engine

    def start(self, spec: ClusterSpec, healthy: Iterable[str], running: Iterable[tuple[PodRequest, BindInfo]]) -> None:
        """Start scheduling by a configuration; pods that run stay where they are, whatever it says."""
        engine = Engine(spec)
        for name in healthy:
            engine.observe(NodeHealth(name, True))
        for request, info in running:
            engine.observe(PodRecovered(request, info))
        self.resume(engine)

    def resume(self, engine: Engine | None) -> None:
        """Go on with an engine as it is, or stop scheduling with None."""
        self.engine = engine
        self._joining.clear()
        for group in self._groups:
            self._join(group)
        self._reconsider()

    def observe(self, event: NodeHealth | PodGone, now: float) -> list[Outcome]:
        """Tell the engine what happened; refused groups for which it matters get another chance."""
        if self.engine is None:
            return []
        outcomes = self.engine.observe(event, now)
        if isinstance(event, NodeHealth) or self.engine.state.health.bad_nodes:
            self._reconsider()
        else:
            for outcome in outcomes:
                match outcome:
                    case GroupChange(_, Group() as before, _):
                        self._reconsider(None if before.virtual is None else before.vc)
        return outcomes

    def next(self, now: float) -> list[Action]:
        """Decide about the next group that can be served and carry it out; nothing to do gives an empty list.

        The caller does what the actions say (removing evicted pods with `remove`) and calls again. `now` is in
        seconds of the cluster's clock.
        """
        if self.engine is None:
            return []
        for group in self._candidates():
            actions = self._try(group, now)
            if actions:
                return actions
        return []

    def _candidates(self) -> Iterator[str]:
        """Groups to try, best first: one for each kind of request that was not refused since the last release."""
        heads = sorted(bucket.order[0] for bucket in self._buckets.values() if not bucket.refused)
        assert self.engine is not None  # noqa: S101 - asked before
        for group in list(self._joining):
            if group in self.engine.state.groups.by_name:
                yield group
            else:
                del self._joining[group]
        yield from (group for _, _, group in heads)

    def _try(self, group: str, now: float) -> list[Action]:
        actions: list[Action] = []
        for uid in list(self._groups[group]):
            request = self._pods[uid]
            decision = self._plan(request)
            done = self._carry_out(decision, now) if decision else []
            if not done:
                self._buckets[signature(request)].refused = True
                break
            actions.extend(done)
            if isinstance(decision, Preempt):
                break
        return actions

    def _plan(self, request: PodRequest) -> Decision | None:
        """What to do about a pod; None if the configuration no longer knows what it asks for, so that it waits."""
        assert self.engine is not None  # noqa: S101 - asked before
        try:
            decision = self.engine.plan(request, None, Phase.FILTERING)
            return self.engine.plan(request, None, Phase.PREEMPTING) if isinstance(decision, Preempt) else decision
        except RequestError:
            return None

    def _carry_out(self, decision: Decision, now: float) -> list[Action]:
        """Apply a decision; empty if the pod waits on."""
        assert self.engine is not None  # noqa: S101 - asked before
        if isinstance(decision, Wait) and not decision.cancel:
            return []
        info = self.engine.bind_info(decision) if isinstance(decision, Bind) else None
        outcomes = self.engine.apply(decision, now)
        actions: list[Action] = list(_demotions(outcomes))
        if actions or (outcomes and not isinstance(decision, Bind)):
            self._reconsider()
        match decision:
            case Bind():
                assert info is not None  # noqa: S101 - made above
                self._leave(self._pods.pop(decision.request.uid))
                actions.append(Bound(decision.request.uid, info))
            case Preempt():
                uids = tuple(uid for _, pods in decision.victims for uid in pods)
                actions.append(Evicted(uids, decision.request.group))
        return actions

    def _reconsider(self, vc: str | None = "") -> None:
        """Give refused requests another chance: all, or those to which a release in one VC matters.

        With healthy hardware a guaranteed request waits for the quota of its own VC and for nothing else (HiveD paper,
        VC safety), so a release elsewhere cannot help it; opportunistic ones may use whatever is free. `vc` is None
        for the release of a group without a guarantee.
        """
        for key, bucket in self._buckets.items():
            if vc == "" or key[0] in (ANY_VC, vc):
                bucket.refused = False


ANY_VC: Final = ""
"""In the signature of opportunistic requests, which use no quota."""


def signature(request: PodRequest) -> Signature:
    """What two requests have in common if they must get the same answer."""
    return (
        request.vc if request.guaranteed else ANY_VC, request.priority, request.members, request.leaf_type,
        request.pinned_id, request.lazy_preemption, request.ignore_suggested,
    )  # fmt: skip


def _demotions(outcomes: Iterable[Outcome]) -> Iterator[Demoted]:
    """Groups that lost their guarantee and run on; one whose devices are taken as well does not."""
    for outcome in outcomes:
        match outcome:
            case GroupChange(name, before, after) if before and after and before.virtual and not after.virtual:
                if after.state is not GroupState.BEING_PREEMPTED:
                    yield Demoted(name, after.preemptor or "")
