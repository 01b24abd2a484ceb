"""Reservations of a Kubernetes cluster: decided here by what runs, kept in the ConfigMap that the doors follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from paictl.cluster.kubernetes.names import run_limit
from paictl.cluster.maintenance import UNIX
from paictl.cluster.pods.lines import PodTimes, end_of
from paictl.cluster.pods.times import began_at, reservation_of
from paictl.cluster.reservations import ReservationRequest, shown, state_of
from paictl.cluster.taking import all_taken
from paictl.cluster.values import JobRequest, ReservationView
from paictl.units import Millis
from paictl.workload.backfill import Foresight
from paictl.workload.reservations import Reservations
from paictl.workload.reserved import ReservedCells

if TYPE_CHECKING:
    from paictl.cluster.configured import ConfigSnapshot
    from paictl.cluster.kubernetes.windows import WindowStore
    from paictl.cluster.pods.recovering import Recovered
    from paictl.remote.kube.client import Json
    from paictl.workload.windows import Windows


class ReservedScene:
    """A cluster as its scheduler would find it if it started now, with what is reserved in it."""

    def __init__(
        self, pods: Iterable[Json], owners: Mapping[str, str], recovery: Recovered, configuration: ConfigSnapshot,
        windows: Windows, reservations: Reservations, now: Millis,
    ) -> None:  # fmt: skip
        """`owners` are the jobs of groups; windows, and so all instants, count from 1970."""
        self.configuration = configuration
        self.reservations = reservations
        self.now = now
        self.owners = owners
        self._engine = recovery.engine
        self._pods = {str(pod["metadata"]["uid"]): pod for pod in pods}
        self.kept = ReservedCells(reservations, self.reservation_of)
        self.foresight = Foresight(recovery.engine, now, self._end_of, windows, self.kept)

    def _end_of(self, group: str) -> Millis | None:
        return end_of(self._engine, group, self._times, self.now)

    def _times(self, uid: str) -> PodTimes | None:
        pod = self._pods.get(uid)
        return None if pod is None else PodTimes(run_limit(pod), began_at(pod))

    def reservation_of(self, group: str) -> str:
        """The reservation that a group which holds devices is for; empty: for none."""
        known = self._engine.state.groups.by_name.get(group)
        uids = [] if known is None else [*(uid for row in known.pods for uid in row if uid), *sorted(known.preempting)]
        return next((reservation_of(self._pods[uid]) for uid in uids if uid in self._pods), "")

    def with_new(self, known: Reservations, request: ReservationRequest) -> Reservations:
        """Reservations with a new one behind them; raises `ReservationError` for one that could not be kept."""
        from paictl.workload.reserving import ReservationScene, admitted  # late: most commands add none

        new = request.reservation(known, self.now, UNIX, self.configuration.spec)
        scene = ReservationScene(
            self.configuration.spec, self.foresight, self.reservation_of, lambda name: self.owners.get(name, name), UNIX
        )
        return admitted(known, new, scene)

    def shown(self, reservations: Reservations) -> tuple[ReservationView, ...]:
        """Reservations as they stand now."""
        return shown(reservations, self.now, UNIX, state_of(self.kept, self.foresight))


class KubernetesReservations:
    """The reservations of one cluster."""

    def __init__(self, scene: Callable[[], ReservedScene], store: WindowStore) -> None:
        self._scene = scene
        self._store = store

    def shown(self) -> tuple[ReservationView, ...]:
        """Those that are not over."""
        seen = self._scene()
        return seen.shown(seen.reservations)

    def add(self, request: ReservationRequest, *, dry_run: bool) -> ReservationView:
        """Add one; raises `ReservationError` for one that could not be kept."""
        if dry_run:
            seen = self._scene()
            after = seen.with_new(seen.reservations, request)
        else:

            def change(known: Reservations) -> Reservations:
                nonlocal seen
                seen = self._scene()  # after the reservations: a window that others add meanwhile spoils the writing
                return seen.with_new(known.current(seen.now), request)

            after = self._store.change_reservations(change)
        return shown(after.all[-1:], seen.now, UNIX, {})[0]

    def refuse(self, requests: Sequence[JobRequest], configuration: ConfigSnapshot) -> None:
        """Raise `ReservationError` for a job that can never start in the reservation that it names."""
        from paictl.workload.reserving import refuse_plan

        reservations = self._scene().reservations
        for job in all_taken(requests, configuration):
            refuse_plan(reservations, job.job, job.plan)
