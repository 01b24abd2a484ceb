"""Maintenance windows and reservations of the embedded cluster: timers say when they begin and end.

A window's tell who has to leave, move who is still there, and end it; a reservation's have those tried who wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import LiveJob, Timer
from paictl.cluster.embedded.machines import Machines
from paictl.cluster.embedded.services import CONFIGURATION, SCHEDULER, Configurations, EmbeddedServices
from paictl.cluster.interface import EventKind, NodeRole
from paictl.cluster.values import ClusterError
from paictl.sim.loop import EventLoop, EventPriority
from paictl.units import Millis, instant
from paictl.workload.lifecycle import PodChange
from paictl.workload.reservations import Repeat, Reservation, Reservations
from paictl.workload.reserved import ReservedCells
from paictl.workload.reserving import ReservationScene, admitted
from paictl.workload.windows import Window, Windows

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.cluster.embedded.sharing import WorldSharing


WINDOW_NOTICE: Final = "window-notice"
WINDOW_BEGIN: Final = "window-begin"
WINDOW_END: Final = "window-end"
WINDOW_TIMERS: Final = frozenset({WINDOW_NOTICE, WINDOW_BEGIN, WINDOW_END})
"""Kinds of timers of windows: the subject is the window's name, the detail its start."""


class WithWindows:
    """The part of the world that keeps windows."""

    windows: Windows
    loop: EventLoop[Timer]
    jobs: dict[str, LiveJob]
    machines: Machines
    dispatcher: Dispatcher
    services: EmbeddedServices
    pods: Mapping[str, object]
    _say: Callable[..., None]
    _pod_over: Callable[..., None]
    _settle: Callable[[], None]

    def add_window(self, window: Window) -> Window:
        """Add a window; raises `WindowError` for what is wrong with it."""
        workers = [node.machine.name for node in self.machines if node.machine.role is NodeRole.WORKER]
        self.windows = self.windows.added(window, self.loop.now, workers)
        self.dispatcher.waiting.reconsider()  # a gang is put elsewhere now, and where it is may make room for another
        for node in () if window.hold else window.nodes:
            self._say(
                EventKind.MAINTENANCE_PLANNED,
                f"node/{node}",
                window_words(window),
                window=window.name,
                reason=window.reason,
            )
        if window.hold:  # nobody has to leave, so there is nothing to say
            self.loop.schedule(window.end, EventPriority.TIMER, Timer(WINDOW_END, window.name, window.start))
            self._settle()
            return window
        for kind, at in (
            (WINDOW_NOTICE, window.start - window.notice),
            (WINDOW_BEGIN, window.start),
            (WINDOW_END, window.end),
        ):
            # after the ends and limits of the same instant: who ends when the window begins has not met it
            self.loop.schedule(Millis(at), EventPriority.TIMER, Timer(kind, window.name, window.start))
        self.advance_windows()
        return window

    def advance_windows(self) -> None:
        """Do what is due about windows at this instant, as when time comes to it."""
        while len(self.loop) and self.loop.peek() == self.loop.now and self.loop.first().kind in WINDOW_TIMERS:
            timer = self.loop.pop(self.loop.now)
            assert timer is not None  # noqa: S101 - asked above
            self.window_due(timer)
        self._settle()

    def remove_window(self, name: str) -> None:
        """Remove a window: its nodes are used again."""
        window = self.windows.find(name)
        self.windows = self.windows.without(name)
        self._ended(window, f"window {name} was removed", removed=True)
        self._settle()

    def is_due(self, timer: Timer) -> bool:
        """Whether a timer of windows is about one that there is."""
        return any((window.name, window.start) == (timer.subject, timer.detail) for window in self.windows)

    def window_due(self, timer: Timer) -> None:
        """A timer of windows has come."""
        if not self.is_due(timer):
            return
        window = self.windows.find(timer.subject)
        if timer.kind == WINDOW_NOTICE:
            for key, nodes in self._leaving(window).items():
                message = (
                    f"{window_words(window)}: it must leave {', '.join(nodes)} then, and will start again elsewhere"
                )
                self._say(
                    EventKind.MAINTENANCE_PLANNED,
                    f"job/{key}",
                    message,
                    window=window.name,
                    nodes=nodes,
                    reason=window.reason,
                )
        elif timer.kind == WINDOW_BEGIN:
            for node in window.nodes:
                self._say(
                    EventKind.MAINTENANCE_STARTED,
                    f"node/{node}",
                    window_words(window),
                    window=window.name,
                    reason=window.reason,
                )
            self.drain()
        else:
            self.windows = self.windows.without(window.name)
            self._ended(window, f"window {window.name} is over", removed=False)

    def _ended(self, window: Window, message: str, *, removed: bool) -> None:
        for node in () if window.hold else window.nodes:
            self._say(EventKind.MAINTENANCE_ENDED, f"node/{node}", message, window=window.name, removed=removed)
        self.dispatcher.waiting.reconsider()

    def drain(self) -> None:
        """Pods on nodes that are in maintenance are lost, and their gangs start again; the scheduler sees to it."""
        active = self.windows.active(self.loop.now) if self.services.runs(SCHEDULER) else {}
        for job in list(self.jobs.values()) if active else ():
            for ref, run in list(job.running()):
                window, uid = active.get(run.info.node), job.pod(ref).uid
                if window is not None and uid in self.pods:
                    reason = f"node {run.info.node} is in maintenance ({window.name})"
                    self._pod_over(uid, PodChange.LOST, reason)

    def _leaving(self, window: Window) -> dict[str, list[str]]:
        """The nodes of a window that jobs hold which may not end in time, by job."""
        return {
            job.key: nodes
            for job in self.jobs.values()
            if (nodes := sorted(self._held(job) & {*window.nodes})) and not _ends_before(job, window.start)
        }

    @staticmethod
    def _held(job: LiveJob) -> set[str]:
        return {run.info.node for _, run in job.running()}


def _ends_before(job: LiveJob, at: Millis) -> bool:
    limit = job.job.max_run_time
    return limit is not None and job.started is not None and job.started + limit <= at


def window_words(window: Window) -> str:
    """A window in an event."""
    return f"maintenance ({window.name}): {window.reason}" if window.reason else f"maintenance ({window.name})"


# --- reservations

RESERVATION_BEGIN: Final = "reservation-begin"
RESERVATION_END: Final = "reservation-end"
RESERVATION_TIMERS: Final = frozenset({RESERVATION_BEGIN, RESERVATION_END})
"""Kinds of timers of reservations: the subject is the name, the detail the begin of the occurrence."""
UNIX: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class WithReservations:
    """The part of the world that keeps reservations."""

    reservations: Reservations
    windows: Windows
    loop: EventLoop[Timer]
    epoch: Millis
    jobs: dict[str, LiveJob]
    dispatcher: Dispatcher
    services: EmbeddedServices
    configs: Configurations
    sharing: WorldSharing
    _say: Callable[..., None]
    _settle: Callable[[], None]

    def spec(self) -> ClusterSpec:
        """The cluster as the scheduler knows it; raises `ClusterError` while it is stopped."""
        self.services.need(CONFIGURATION)
        self.services.need(SCHEDULER)
        loaded = self.services.version(SCHEDULER)
        if not loaded:
            raise ClusterError("the cluster has no scheduler")
        return self.configs.get(loaded).spec

    def try_reservation(self, new: Reservation) -> Reservations:
        """The reservations with a new one; raises `ReservationError` for one that could not be kept."""
        spec, foresight = self.spec(), self.dispatcher.foresight(self.loop.now, self.windows)
        if foresight is None:
            raise ClusterError("the cluster has no scheduler")
        owners = {group: job.key for job in self.jobs.values() for group in job.groups}
        epoch = instant(UNIX, self.epoch)
        scene = ReservationScene(
            spec, foresight, self.sharing.reservation_of, lambda group: owners.get(group, group), epoch
        )
        return admitted(self.reservations, new, scene)

    def add_reservation(self, new: Reservation) -> Reservation:
        """Add a reservation; raises `ReservationError` for one that could not be kept."""
        self.reserve(self.try_reservation(new))
        self._say(EventKind.RESERVATION_ADDED, f"reservation/{new.name}", reservation_words(new), **_data(new))
        self._schedule(new)
        self.advance_reservations()
        return new

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation: its cells are free for others."""
        known = self.reservations.find(name)
        self.reserve(self.reservations.without(name))
        self._say(EventKind.RESERVATION_ENDED, f"reservation/{name}", "removed", vc=known.vc)
        self.dispatcher.waiting.reconsider()
        self._settle()

    def reserve(self, reservations: Reservations) -> None:
        """These are the reservations from now on."""
        self.reservations = reservations
        if reservations or self.dispatcher.reserved is not None:
            self.dispatcher.reserve(ReservedCells(reservations, self.sharing.reservation_of) if reservations else None)

    def _schedule(self, known: Reservation) -> None:
        """Wake up for the occurrence that lasts or comes next; after the ends and limits of the same instant."""
        current = known.occurrence(self.loop.now)
        if current is not None:
            kind, at = (RESERVATION_END, current[1]) if current[0] < self.loop.now else (RESERVATION_BEGIN, current[0])
            self.loop.schedule(at, EventPriority.TIMER, Timer(kind, known.name, current[0]))

    def advance_reservations(self) -> None:
        """Do what is due about reservations at this instant, as when time comes to it."""
        while len(self.loop) and self.loop.peek() == self.loop.now and self.loop.first().kind in RESERVATION_TIMERS:
            timer = self.loop.pop(self.loop.now)
            assert timer is not None  # noqa: S101 - asked above
            self.reservation_due(timer)
        self._settle()

    def is_of_reservation(self, timer: Timer) -> bool:
        """Whether a timer of reservations is about one that there is."""
        known = self.reservations.get(timer.subject)
        if known is None:
            return False
        return timer.detail >= known.start and (timer.detail - known.start) % (known.repeat.period or 1 << 62) == 0

    def is_recurring(self, timer: Timer) -> bool:
        """Whether a timer comes again for ever, and so is no reason to go on when nothing else will happen."""
        known = self.reservations.get(timer.subject) if timer.kind in RESERVATION_TIMERS else None
        return known is not None and known.repeat is not Repeat.ONCE

    def reservation_due(self, timer: Timer) -> None:
        """A timer of reservations has come."""
        known = self.reservations.get(timer.subject)
        if known is None or not self.is_of_reservation(timer):
            return
        subject = f"reservation/{known.name}"
        if timer.kind == RESERVATION_BEGIN:
            self._say(EventKind.RESERVATION_STARTED, subject, reservation_words(known), **_data(known))
            for needed, kept in self._short(known):
                message = f"{kept} of {needed} cells are free or can be made free"
                self._say(EventKind.RESERVATION_SHORT, subject, message, vc=known.vc, needed=needed, kept=kept)
            at = Millis(timer.detail + known.end - known.start)
            self.loop.schedule(at, EventPriority.TIMER, Timer(RESERVATION_END, known.name, timer.detail))
        else:
            self._say(EventKind.RESERVATION_ENDED, subject, "", vc=known.vc)
            if known.repeat is Repeat.ONCE:
                self.reserve(self.reservations.without(known.name))
            else:
                self._schedule_next(known, timer)
        self.dispatcher.waiting.reconsider()

    def _schedule_next(self, known: Reservation, timer: Timer) -> None:
        begin = Millis(timer.detail + (known.repeat.period or 0))
        self.loop.schedule(begin, EventPriority.TIMER, Timer(RESERVATION_BEGIN, known.name, begin))

    def _short(self, known: Reservation) -> Iterable[tuple[int, int]]:
        """(needed, kept) if a reservation of a promise begins with fewer cells than it has."""
        foresight, kept = self.dispatcher.foresight(self.loop.now, self.windows), self.dispatcher.reserved
        if foresight is None or kept is None or not known.vc:
            return ()
        now = self.loop.now
        moments = [(at, active) for at, active in self.reservations.moments(known.vc, now) if at == now]
        return [
            (clash.reservation.cells, clash.kept)
            for clash in kept.short(foresight, known.vc, moments)
            if clash.reservation.name == known.name
        ]


def _data(known: Reservation) -> dict[str, object]:
    """A reservation in the data of an event."""
    return {"vc": known.vc, "cells": known.cells, "type": known.cell_type, "reason": known.reason}


def reservation_words(known: Reservation) -> str:
    """A reservation in an event."""
    return f"{known.size}: {known.reason}" if known.reason else known.size
