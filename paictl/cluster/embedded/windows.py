"""Maintenance windows of the embedded cluster: timers that tell who has to leave, move who is still there, and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.machines import Machines
from paictl.cluster.embedded.records import Timer
from paictl.cluster.embedded.services import SCHEDULER, EmbeddedServices
from paictl.cluster.interface import EventKind, NodeRole
from paictl.sim.loop import EventLoop, EventPriority
from paictl.units import Millis
from paictl.workload.lifecycle import PodChange
from paictl.workload.windows import Window, Windows

NOTICE: Final = "window-notice"
BEGIN: Final = "window-begin"
END: Final = "window-end"
KINDS: Final = frozenset({NOTICE, BEGIN, END})
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
            self.loop.schedule(window.end, EventPriority.TIMER, Timer(END, window.name, window.start))
            self._settle()
            return window
        for kind, at in ((NOTICE, window.start - window.notice), (BEGIN, window.start), (END, window.end)):
            # after the ends and limits of the same instant: who ends when the window begins has not met it
            self.loop.schedule(Millis(at), EventPriority.TIMER, Timer(kind, window.name, window.start))
        self.advance_windows()
        return window

    def advance_windows(self) -> None:
        """Do what is due about windows at this instant, as when time comes to it."""
        while len(self.loop) and self.loop.peek() == self.loop.now and self.loop.first().kind in KINDS:
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
        if timer.kind == NOTICE:
            for key, nodes in self._leaving(window).items():
                message = f"{window_words(window)}: it has to leave {', '.join(nodes)}, and starts again elsewhere then"
                self._say(EventKind.MAINTENANCE_PLANNED, f"job/{key}", message, window=window.name, nodes=nodes,
                          reason=window.reason)  # fmt: skip
        elif timer.kind == BEGIN:
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
