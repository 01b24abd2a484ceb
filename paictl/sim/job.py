"""The job as it really is. What a policy may know of it is in `view.JobView`.

All instants and spans are whole milliseconds from the start of the trace, whatever the unit of the file. `work` is what
the job would take on `gpus` devices of the reference type, close together and alone; every other field that is a rate
is relative to that (1.0 = as fast).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final, NamedTuple

from paictl import i18n
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.sim.goodput import TrainingProfile
from paictl.units import Millis
from paictl.workload.job import Restart

NO_RATES: Mapping[str, float] = {}
NO_SCALING: Mapping[int, float] = {}
"""Shared by all jobs; plain dicts, because a mapping proxy can neither be a default nor be pickled."""


WHOLE: Final = 1000
"""Thousandths of a device."""


class TraceJobError(PaictlError, ValueError):
    """An impossible job; `where` is its id."""


class Share(StrEnum):
    """Whether a job uses its tenant's quota, or devices that others leave free."""

    GUARANTEED = "guaranteed"
    OPPORTUNISTIC = "opportunistic"


class DeadlineKind(StrEnum):
    """What a job's deadline means."""

    STRICT = "strict"
    """Worth something until the deadline and nothing after it."""
    SOFT = "soft"
    """Worth less after each of several deadlines."""
    BEST_EFFORT = "best-effort"
    """It has none."""


class TraceStatus(StrEnum):
    """How the job ended in the trace; a policy learns it when it happens."""

    PASSED = "passed"
    KILLED = "killed"
    """By its user."""
    FAILED = "failed"


@frozen
class Deadline:
    """By `time` (an instant, ms) the job is worth `value`; after the last deadline, nothing."""

    time: Millis
    value: float = 1.0


class ResourceRequest(NamedTuple):
    """What a job requests of a node, without memory."""

    cpu_milli: int
    gpu_milli: int
    """Thousandths of each device; 0 without devices."""
    gpus: int
    types: tuple[str, ...]
    """Device types that will do; empty: any type."""


@frozen
class Job:
    """One job of a trace; raises `TraceJobError` if it is impossible. Unknown fields have their defaults."""

    id: str
    submit: Millis
    gpus: int
    work: Millis
    """Run time on `gpus` devices of the reference type."""
    user: str = ""
    vc: str = ""
    """The tenant."""
    gpu_milli: int = 1000
    """Thousandths of each device that it needs: fewer than 1000 is a share of one device, with others on the rest."""
    cpu_milli: int = 0
    """Thousandths of a core that it needs, all on one node."""
    memory_mib: int = 0
    """Memory of the node that it needs."""
    gpu_types: tuple[str, ...] = ()
    """Device types that will do, if there are several; empty: see `gpu_type`."""
    pod: int = 0
    """Devices that must be on one node, each part of `gpus` alike; 0: whole nodes and, for the rest, a part of one."""
    model: str = ""
    """Name of the model that it trains; two jobs of one model behave alike."""
    priority: int = 0
    """Higher is more urgent."""
    share: Share = Share.GUARANTEED
    urge: DeadlineKind = DeadlineKind.BEST_EFFORT
    deadlines: tuple[Deadline, ...] = ()
    """By rising time."""
    elastic: tuple[int, int] | None = None
    """Fewest and most devices it can run on; None: exactly `gpus`."""
    scaling: Mapping[int, float] = field(default_factory=lambda: NO_SCALING)
    """Rate by number of devices, 1.0 at `gpus`; a number that is not listed is as fast as its part of `gpus`."""
    throughput: Mapping[str, float] = field(default_factory=lambda: NO_RATES)
    """Rate by device type; a type that is not listed has the rate 1.0 if nothing is, else cannot run it."""
    sensitivity: Mapping[str, float] = field(default_factory=lambda: NO_RATES)
    """Rate by the smallest level that holds all its devices (`pcie`, `socket`, `node`, `rack`, `domain`, …); 1.0 if
    not listed."""
    spread: Mapping[int, float] = field(default_factory=lambda: NO_SCALING)
    """Rate by number of nodes it is spread over (Chronus); that of the largest listed number that is not more."""
    skew: float = 0.0
    """Size of the largest tensor by size of the model (Tiresias), 0 to 1."""
    gpu_util: float = 1.0
    """How busy it keeps a device when alone, 0 to 1."""
    gpu_mem: float = 0.0
    """Part of a device's memory it needs, 0 to 1."""
    coloc: Mapping[str, float] = field(default_factory=lambda: NO_RATES)
    """Its rate beside a job of that model on the same devices; `TYPE/MODEL` for a device type goes before `MODEL`."""
    beside: Mapping[str, float] = field(default_factory=lambda: NO_RATES)
    """Its rate while a job of that model is near without sharing a device (SC'17: on the same socket); `MODEL*GPUS`,
    for one with so many devices, goes before `MODEL`."""
    gpu_type: str | None = None
    """The only device type it may run on."""
    pinned_cell: str = ""
    """The pinned cell of its tenant in which it runs; empty: in cells that are not pinned."""
    reservation: str = ""
    """Its reservation, if the policy supports reservations; empty: none."""
    restart: Restart = Restart.GANG
    """Whether a lost part is replaced while the others keep their devices, if the policy supports that."""
    iterations: int = 0
    """Steps in `work`, 0 if not known: steps per second on the reference are 1000 * iterations / work."""
    fate: TraceStatus = TraceStatus.PASSED
    dies_after: Millis | None = None
    """Work after which it is killed or fails, if that is before it is done."""
    limit: Millis | None = None
    """The run-time limit that its user set; None: no limit."""
    facts: Mapping[str, float] = field(default_factory=lambda: NO_RATES)
    """Numbers that one policy alone needs, by name (`loss.b0`, `utility`, …); write the names in the policy's file."""
    training: TrainingProfile | None = field(default=None, repr=False, compare=False)
    """How fast it trains with other batch sizes and devices, for policies that choose both (`Policy.tunes`)."""

    def __post_init__(self) -> None:
        if self.gpus < (0 if self.cpu_milli > 0 else 1):
            raise TraceJobError(
                i18n.text("a job needs at least 1 device, not {gpus}", gpus=self.gpus), where=f"job {self.id}"
            )
        if not 1 <= self.gpu_milli <= WHOLE or (self.gpu_milli < WHOLE and self.gpus > 1):
            raise TraceJobError(
                i18n.text(
                    "a share is 1 to 999 thousandths of one device, not {milli} of {gpus}",
                    milli=self.gpu_milli,
                    gpus=self.gpus,
                ),
                where=f"job {self.id}",
            )
        if self.cpu_milli < 0 or self.memory_mib < 0:
            raise TraceJobError("its CPU and memory cannot be below 0", where=f"job {self.id}")
        if self.pod < 0 or (self.pod and self.gpus % self.pod):
            raise TraceJobError(
                i18n.text("{gpus} devices cannot be divided into pods of {pod}", gpus=self.gpus, pod=self.pod),
                where=f"job {self.id}",
            )
        if self.work < 0 or self.submit < 0:
            raise TraceJobError("its work and its submission time cannot be negative", where=f"job {self.id}")

    @property
    def request(self) -> ResourceRequest:
        """What it requests of a node."""
        types = (self.gpu_type,) if self.gpu_type is not None else self.gpu_types
        return ResourceRequest(self.cpu_milli, self.gpu_milli if self.gpus else 0, self.gpus, types)

    @property
    def milli(self) -> int:
        """Thousandths of devices that it needs in total."""
        return self.gpus * self.gpu_milli

    def devices_range(self, *, transparent: bool = False, tunes: bool = False) -> tuple[int, int]:
        """Fewest and most devices under a policy that is `transparent` or `tunes`."""
        if tunes and self.training is not None:
            return 1, max(self.gpus, self.training.most())
        return self.elastic or (1 if transparent else self.gpus, self.gpus)

    @property
    def true_work(self) -> Millis:
        """Work until it ends, one way or another."""
        return self.work if self.dies_after is None else min(self.work, self.dies_after)


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Jobs by submission, then by row: the order in which they arrive, and the final tie-breaker.

    Published simulators do the same; ids may be random.
    """
    return sorted(jobs, key=lambda job: job.submit)


@frozen
class Trace:
    """Jobs, and where they come from."""

    jobs: tuple[Job, ...]
    """In the order of the file; the engine sorts them by `in_order`."""
    path: str = ""
    sha256: str = ""
    """Of the bytes of the file."""
    format: str = ""
    bad: tuple[BadRow, ...] = ()
    """Rows that were left out, each with its reason."""


@frozen
class BadRow:
    """A row of a trace that is not a job."""

    line: int
    """Counted from 1, as an editor does."""
    message: str
