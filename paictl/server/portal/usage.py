"""How many devices each virtual cluster has used, from the events that the cluster records itself."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from paictl.cluster.interface import Cluster, Event, EventKind, Port
from paictl.cluster.jobpages import FollowsJobs
from paictl.cluster.picture import Picture
from paictl.cluster.values import ENDS
from paictl.errors import PaictlError
from paictl.frozen import frozen

WINDOW: Final = timedelta(hours=24)
"""What is shown; less while the cluster is younger."""
SAMPLES: Final = 96
"""Instants at which the devices in use are counted."""
FRESH: Final = 30.0
"""Seconds for which what was counted of a followed cluster is shown."""
FRESH_PICTURE: Final = 4.0
"""The same for the cells: as long as a page waits until it looks again."""
KEPT: Final = 50_000
"""Changes that are remembered; older ones are beyond the left end of any chart."""
WIDTH: Final = 960
HEIGHT: Final = 120


@frozen
class UsageBand:
    """A virtual cluster: its area in the chart as points of an SVG polygon, and its mean number of devices."""

    vc: str
    points: str
    mean: float


@frozen
class UsageChart:
    """Bands from the bottom up; `most` devices are the height of the chart."""

    start: datetime
    end: datetime
    most: int
    bands: tuple[UsageBand, ...]


@dataclass(slots=True)
class _Fold:
    """Events as changes of the number of devices in use."""

    cluster: object = None
    last: int = 0
    vcs: dict[str, str] = field(default_factory=dict)
    running: dict[tuple[str, str, int], int] = field(default_factory=dict)
    forgotten: Counter[str] = field(default_factory=Counter)
    """Devices in use before the first change that is remembered."""
    changes: deque[tuple[datetime, str, int]] = field(default_factory=deque)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self.last = max(self.last, event.number)
            kind, _, job = event.subject.partition("/")
            if kind == "job":
                self._job(event, job)

    def _job(self, event: Event, job: str) -> None:
        data = event.data
        if event.kind is EventKind.SUBMITTED and "vc" in data:
            self.vcs[job] = str(data["vc"])
        if "role" not in data or job not in self.vcs:
            return
        task = job, str(data["role"]), int(data["index"])
        if event.kind is EventKind.STARTED:
            self._change(event.at, task, len(data.get("devices") or ()))
        elif event.kind in ENDS:
            self._change(event.at, task, 0)

    def _change(self, at: datetime, task: tuple[str, str, int], devices: int) -> None:
        difference = devices - self.running.pop(task, 0)
        if devices:
            self.running[task] = devices
        if difference:
            self.changes.append((at, self.vcs[task[0]], difference))
        if len(self.changes) > KEPT:
            _, vc, number = self.changes.popleft()
            self.forgotten[vc] += number


@frozen
class _Counted:
    """Devices in use at `SAMPLES` instants from `start` to `end`."""

    start: datetime
    end: datetime
    samples: tuple[Counter[str], ...]


class UsageHistory:
    """What was used until now.

    Of a cluster on this machine only events that are new are read. One that is followed over the network has to be read
    whole, which takes a second where there are 10,000 jobs: that is done beside the requests, every `FRESH` seconds.
    """

    def __init__(self) -> None:
        self._fold = _Fold()
        self._lock = threading.Lock()
        self.followed: Remembered[_Counted] = Remembered(FRESH)
        self._pictures: Remembered[Picture] = Remembered(FRESH_PICTURE)

    def picture(self, cluster: Cluster) -> Picture | None:
        """The cells as they are, of a followed cluster as they were some seconds ago; None if it shows none."""
        if Port.SCHEDULING in cluster.lacks:
            return None
        return self._pictures.get(cluster.picture) if isinstance(cluster, FollowsJobs) else cluster.picture()

    def chart(self, cluster: Cluster, total: int) -> UsageChart | None:
        """The use of the last day; None while nothing has run. `total` is the number of devices that there are."""
        followed = isinstance(cluster, FollowsJobs)
        counted = self.followed.get(lambda: self._count(cluster)) if followed else self._count(cluster)
        if counted is None:
            return None
        vcs = sorted({vc for sample in counted.samples for vc in sample if sample[vc]})
        most = max(total, *(sum(sample.values()) for sample in counted.samples), 1)
        return UsageChart(counted.start, counted.end, most, tuple(_bands(vcs, counted.samples, most)))

    def _count(self, cluster: Cluster) -> _Counted | None:
        """Read what is new and count; None while nothing has run."""
        now = cluster.now
        if isinstance(cluster, FollowsJobs):
            fold = _Fold()
            fold.add(cluster.events())
            changes, counts = list(fold.changes), fold.forgotten
        else:
            identity = (cluster.name, cluster.epoch)
            with self._lock:
                if self._fold.cluster != identity:
                    self._fold = _Fold(identity)
                self._fold.add(cluster.events(after=self._fold.last))
                changes, counts = list(self._fold.changes), Counter(self._fold.forgotten)
        start = max(now - WINDOW, cluster.epoch)
        if not changes or now <= start:
            return None
        return _Counted(start, now, tuple(_samples(changes, counts, start, now)))


def _samples(
    changes: Sequence[tuple[datetime, str, int]], counts: Counter[str], start: datetime, end: datetime
) -> list[Counter[str]]:
    """Devices in use by virtual cluster at `SAMPLES` instants."""
    samples, place = [], 0
    for number in range(SAMPLES):
        at = start + (end - start) * number / (SAMPLES - 1)
        while place < len(changes) and changes[place][0] <= at:
            _, vc, difference = changes[place]
            counts[vc] += difference
            place += 1
        samples.append(Counter(counts))
    return samples


def _bands(vcs: Sequence[str], samples: Sequence[Counter[str]], most: int) -> Iterable[UsageBand]:
    below: list[Any] = [0] * len(samples)
    for vc in vcs:
        above = [low + sample[vc] for low, sample in zip(below, samples, strict=True)]
        mean = sum(sample[vc] for sample in samples) / len(samples)
        yield UsageBand(vc, " ".join([*_line(above, most), *reversed(_line(below, most))]), round(mean, 1))
        below = above


def _line(values: Sequence[int], most: int) -> list[str]:
    step = WIDTH / (len(values) - 1)
    return [f"{number * step:.1f},{HEIGHT - value * HEIGHT / most:.1f}" for number, value in enumerate(values)]


T = TypeVar("T")

_LOGGER = logging.getLogger("paictl.server")


class Remembered(Generic[T]):
    """What `read` gave last; the first who asks waits for it, everybody else gets it at once.

    If it is older than `fresh` seconds, it is read again for those who come later. One that cannot be read stays as it
    was.
    """

    def __init__(self, fresh: float) -> None:
        self.fresh = fresh
        self._lock = threading.Lock()
        self._value: T | None = None
        self._known = False
        self._at = 0.0
        self._reading = False

    @property
    def reading(self) -> bool:
        """Whether it is being read."""
        with self._lock:
            return self._reading

    def get(self, read: Callable[[], T | None]) -> T | None:
        """The value, None if there is none yet. Raises what `read` raises, for the first who asks only.

        That `read` gives None is worth remembering, too: it may have taken as long.
        """
        with self._lock:
            value, known = self._value, self._known
            due = not self._reading and (not known or time.monotonic() - self._at > self.fresh)
            self._reading |= due
        if not due:
            return value
        if not known:
            return self._read(read)
        threading.Thread(target=self._read_later, args=(read,), daemon=True).start()
        return value

    def _read_later(self, read: Callable[[], T | None]) -> None:
        try:
            self._read(read)
        except PaictlError as error:  # the next visit tries again
            _LOGGER.warning("cannot be read again: %s", error)

    def _read(self, read: Callable[[], T | None]) -> T | None:
        try:
            value = read()
        except BaseException:
            with self._lock:
                self._reading, self._at = False, time.monotonic()
            raise
        with self._lock:
            self._reading, self._at, self._value, self._known = False, time.monotonic(), value, True
        return value
