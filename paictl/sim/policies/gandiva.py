"""Gandiva: no prior knowledge; time slices, packing, migration, growing and shrinking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf
from typing import Final

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Migrate, Preempt, Resize, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.homes import Case, Home, Homes
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.rates import Rates
from paictl.sim.view import JobView
from paictl.units import Millis

_UNKNOWN: Final = 0.05
"""The most that a move of unknown gain may cost, as a share of the job's run time."""


@frozen
class GandivaParameters(Parameters):
    """The mechanisms, each of which can be switched off."""

    quantum: Span = parameter(Span(60_000), "time slice, and interval between improvements", least=0.001)
    packing: bool = parameter(True, "share devices if that is faster than taking turns")
    migration: bool = parameter(True, "consolidate jobs, and move them into free devices")
    grow: bool = parameter(True, "let elastic jobs use idle devices of their server")
    most_free: float = parameter(0.75, "empty a server if at least this share of its devices is free", most=1)


class Gandiva(Policy):
    """Every job gets a place at once, if necessary by taking turns with others of its size. Observed speeds then
    improve placements. Example: `gandiva:quantum=60,packing=false,resume=1`.
    """

    id = "gandiva"
    title = "time slicing, packing, migration, grow-shrink, all by trial and error"
    paper = "Gandiva (OSDI'18) §3"
    knows = frozenset({Knowledge.UTILISATION, Knowledge.RATE})
    choices = (
        "Algorithm 1 takes a server with the job's affinity if its height is below 1, which never holds for a "
        "server in use; here the server must have room for the job",
        "jobs larger than a server run on several, which take turns together",
        "jobs of higher priority go first in every turn; equal ones take turns (without weights, because traces "
        "have none)",
        "packing is tried for one quantum on the running job with the lowest utilization and enough free memory, "
        "and kept if both jobs together make more progress than one alone",
        "packing is for overload: when a device becomes free elsewhere, the packed job moves there",
        "with several types, a job that runs alone tries each free type for a quantum and stays on the fastest; it "
        "moves if the move costs no more than it gains in as much time as the job has run, or, to an untried type, "
        "at most a twentieth of that",
        "grown jobs shrink at every arrival, before the new job is placed; they grow again at the next quantum",
        "suspensions count as preemptions, including those at the end of a time slice",
    )
    Parameters = GandivaParameters

    def __init__(self, parameters: GandivaParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.homes = Homes(self.cluster)
        self._queue: dict[tuple[int, str | None], list[tuple[int, int, JobView]]] = {}
        self._solo: dict[int, int] = {}
        """By job: its rate when it last ran alone."""
        self._rates: dict[int, dict[str, int]] = {}
        """The same by job and device type."""
        self._guests: dict[int, int] = {}
        """By packed job (guest): its host, the job whose devices it shares."""
        self._hosts: dict[int, int] = {}
        """The inverse of `_guests`."""
        self._trials: dict[int, Millis] = {}
        """By guest on trial: when it was packed."""
        self._misfits: dict[int, set[int]] = defaultdict(set)
        """By job: the jobs with which it cannot be packed."""
        self._views: dict[int, JobView] = {}
        self._restless = False
        self._undecided = False
        """Whether a job is being tried on another type, or may move to one once it has run long enough."""
        self._grown: dict[int, JobView] = {}
        self._counts: dict[str, float] = dict.fromkeys(
            (*(f"case_{case.value}" for case in Case), "packed", "unpacked", "moved_while_suspended", "changed_type"), 0
        )

    def make_rates(self) -> Rates:
        """The location of jobs matters, whatever `placement` says."""
        return Rates(self.cluster, located=True, overhead=self.p.overhead)

    # --- events

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Free its devices and its place in the home; a guest on the devices stays."""
        home = self.homes.of[job.number]
        self._free(job, home, devices)
        self._grown.pop(job.number, None)
        for book in (self._solo, self._rates, self._views, self._misfits):
            book.pop(job.number, None)
        self.homes.leave(job)

    def plan(self, moment: Trigger) -> None:
        """React to the events, and improve placements at the end of a quantum."""
        tick = moment.woken and self.now % self.p.quantum == 0
        if moment.arrived:
            self._shrink()
        for job in moment.arrived:
            self._views[job.number] = job
            self._place(job)
        if moment.ended:
            self._departed()
        if tick:
            self._introspect()
        self._restless = bool(moment.arrived or moment.ended) or any(home.crowded for home in self.homes)
        self._restless = self._restless or self._undecided

    def wake(self) -> Millis | None:
        """The end of the quantum, if there is anything to do."""
        if not (self._restless or self._trials):
            return None
        return Millis((self.now // self.p.quantum + 1) * self.p.quantum)

    # --- reactive

    def _place(self, job: JobView) -> bool:
        case, home = self.homes.find(job)
        if home is None:
            self._counts["case_5"] += 1
            heappush(self._queue.setdefault((job.gpus, job.gpu_type), []), (-job.priority, job.number, job))
            return False
        self._counts[f"case_{case.value}"] += 1
        self.homes.settle(job, home)
        if case is not Case.OVERSUBSCRIBED:
            self._fill(home)
        return True

    def _departed(self) -> None:
        """Start waiting residents, then place queued jobs, then move in jobs that take turns elsewhere."""
        for home in self.homes:
            self._fill(home)
        for group in sorted(self._queue, key=lambda group: self._queue[group][0][:2]):
            heap = self._queue[group]
            while heap and self.homes.find(heap[0][2])[1] is not None:
                self._place(heappop(heap)[2])
            if not heap:
                del self._queue[group]
        if self.p.migration:
            self._move_in()

    def _move_in(self) -> None:
        """Move suspended jobs of the highest homes to free room, then packed ones, since packing is for overload."""
        for home in sorted(self.homes, key=lambda home: (-home.height, home.nodes)):
            while home.crowded and (job := self._without_devices(home)) is not None:
                self.homes.leave(job)
                case, better = self.homes.find(job)
                if better is None or case is Case.OVERSUBSCRIBED or better is home:
                    self.homes.settle(job, home)
                    break
                self.homes.settle(job, better)
                if self.held(job):
                    self._suspend(job, home)
                self._counts["moved_while_suspended"] += 1
                self._fill(better)

    def _without_devices(self, home: Home) -> JobView | None:
        """The next resident without devices of its own: a suspended job, else a packed one."""
        waits = next((job for job in home.residents if not self.held(job)), None)
        packed = (job for job in home.residents if job.number in self._guests and job.number not in self._trials)
        return waits or next(packed, None)

    def _fill(self, home: Home) -> None:
        """Start residents on free devices, in turn."""
        for job in sorted(home.residents, key=lambda job: -job.priority):
            if not self.held(job) and job.gpus <= len(home.free):
                self._start(job, home)

    def _start(self, job: JobView, home: Home) -> None:
        devices = home.put(job.gpus)
        self.hold(job, devices)
        self.act(Start(job, devices))

    def _free(self, job: JobView, home: Home, devices: Devices) -> None:
        """Return a job's devices to its home, unless a host or a guest still runs on them."""
        self._trials.pop(job.number, None)
        host = self._guests.pop(job.number, None)
        if host is not None:
            self._hosts.pop(host, None)
            return
        guest = self._hosts.pop(job.number, None)
        if guest is not None:
            self._guests.pop(guest, None)
            self._trials.pop(guest, None)
            return
        home.back(devices)

    def _suspend(self, job: JobView, home: Home) -> None:
        self._free(job, home, self.held(job))
        self.let_go(job)
        self.act(Preempt(job))

    # --- introspective

    def _introspect(self) -> None:
        for home in list(self.homes):
            self._observe(home)
            if home.crowded:
                self._judge(home)
                if not (self.p.packing and self._pack(home)):
                    self._turn(home)
        if self.p.migration:
            self._change_types()
            self._defragment()
        if self.p.grow:
            self._grow()

    def _observe(self, home: Home) -> None:
        for job in home.residents:
            if job.running and job.number not in self._guests and job.number not in self._hosts:
                self._solo[job.number] = job.rate
                self._rates.setdefault(job.number, {})[self.cluster.type_of[job.devices[0]]] = job.rate

    def _turn(self, home: Home) -> None:
        """Give the next residents their turn: jobs that ran go to the end; host and guest of a pack keep running."""
        packed = set(self._guests) | set(self._hosts)
        room = len(home.devices) - sum(len(self.held(job)) for job in home.residents if job.number in self._hosts)
        ran = [job for job in home.residents if self.held(job) and job.number not in packed]
        waits = [job for job in home.residents if not self.held(job)]
        chosen: list[JobView] = []
        for job in sorted([*waits, *ran], key=lambda job: -job.priority):
            if job.gpus <= room:
                chosen.append(job)
                room -= job.gpus
        for job in ran:
            if job not in chosen:
                self._suspend(job, home)
        for job in chosen:
            if not self.held(job):
                self._start(job, home)
        stay = [job for job in home.residents if job not in chosen]
        home.residents.clear()
        home.residents.extend([*stay, *chosen])

    def _pack(self, home: Home) -> bool:
        """Pack a suspended job with a running one, those of the lowest utilisation first; whether a pair was found."""
        waits = [job for job in home.residents if not self.held(job) and job.number in self._solo]
        hosts = [
            job
            for job in home.residents
            if job.number in self._solo
            and job.running
            and self.held(job) == job.devices
            and job.number not in self._guests
            and job.number not in self._hosts
        ]
        for guest in sorted(waits, key=lambda job: (job.gpu_util, job.number)):
            for host in sorted(hosts, key=lambda job: (job.gpu_util, job.number)):
                if host.gpus != guest.gpus or host.number in self._misfits[guest.number]:
                    continue
                if host.gpu_mem + guest.gpu_mem > 1 or host.priority != guest.priority:
                    continue
                devices = self.held(host)
                self._guests[guest.number], self._hosts[host.number] = host.number, guest.number
                self._trials[guest.number] = self.now
                self.hold(guest, devices)
                self.act(Colocate(guest, devices))
                self._counts["packed"] += 1
                return True
        return False

    def _judge(self, home: Home) -> None:
        """Undo packs that made less progress in a quantum than taking turns would have."""
        for guest in [job for job in home.residents if job.number in self._trials]:
            host = self._views[self._guests[guest.number]]
            del self._trials[guest.number]
            together = guest.rate / max(1, self._solo[guest.number]) + host.rate / max(1, self._solo[host.number])
            if together <= 1:
                self._misfits[guest.number].add(host.number)
                self._misfits[host.number].add(guest.number)
                self._suspend(guest, home)
                self._counts["unpacked"] += 1

    def _change_types(self) -> None:
        """Move jobs to free devices of another type: one on which they ran faster, or have not run yet."""
        self._undecided = False
        if len(self.cluster.types) < 2 or self._queue:
            return
        for job in sorted(self._views.values(), key=lambda view: view.number):
            if job.gpu_type is None and self._movable(job):
                self._undecided |= self._change_type(job)

    def _movable(self, job: JobView) -> bool:
        """Whether the job runs alone on its requested number of devices."""
        alone = job.number not in self._guests and job.number not in self._hosts
        return alone and job.running and self.held(job) == job.devices and len(job.devices) == job.gpus

    def _change_type(self, job: JobView) -> bool:
        """Move a job if that pays; whether to look at the job again in the next quantum."""
        current = self.cluster.type_of[job.devices[0]]
        rates = self._rates.setdefault(job.number, {})
        if current not in rates:
            return True  # has not run for a quantum yet
        others = [kind for kind in self.cluster.types if kind != current and rates.get(kind, inf) > rates[current]]
        for kind in sorted(others, key=lambda kind: -rates.get(kind, 0.0)):  # seen and faster, then those not tried
            faster = rates[kind] / max(1, rates[current]) - 1 if kind in rates else _UNKNOWN if rates[current] else inf
            if not self._pays(job, faster):
                return True
            if (home := self.homes.room_on(kind, job.gpus)) is not None:
                self._counts["changed_type"] += 1
                self._move(job, home)
                return True
        return False

    def _pays(self, job: JobView, gain: float) -> bool:
        """Whether a move is worth its cost, assuming that the job will run as long again as it ran."""
        cost: int = self.p.migrate
        return cost <= gain * job.ran(self.now)

    def _move(self, job: JobView, home: Home) -> None:
        before = self.homes.of[job.number]
        before.back(self.held(job))
        self.homes.leave(job)
        self.homes.settle(job, home)
        devices = home.put(job.gpus)
        self.hold(job, devices)
        self.act(Migrate(job, devices))

    def _defragment(self) -> None:
        """Empty the server with most free devices into fuller ones, until no server is mostly free."""
        while True:
            loose = [home for home in self.homes if self._loose(home)]
            if not loose:
                return
            source = max(loose, key=lambda home: (home.spare, [-node for node in home.nodes]))
            if not self._empty(source):
                return

    def _loose(self, home: Home) -> bool:
        return len(home.nodes) == 1 and not home.crowded and home.spare >= self.p.most_free * len(home.devices)

    def _empty(self, source: Home) -> bool:
        """Move all jobs of a home to fuller homes; False, and nothing moves, if not all of them fit."""
        jobs = sorted(source.residents, key=lambda job: (-job.gpus, job.number))
        if any(job.number in self._guests or job.number in self._hosts or not job.running for job in jobs):
            return False
        if any(self.held(job) != job.devices or len(job.devices) != job.gpus for job in jobs):
            return False
        room = {
            index: home.spare
            for index, home in enumerate(self.homes.all)
            if home is not source and self._near(home, source)
        }
        moves = []
        for job in jobs:
            best = min((index for index in room if room[index] >= job.gpus), key=lambda i: (room[i], i), default=None)
            if best is None:
                return False
            room[best] -= job.gpus
            moves.append((job, self.homes.all[best]))
        if not all(self._pays(job, _UNKNOWN) for job in jobs):
            return False
        for job, home in moves:
            self._move(job, home)
        return True

    def _near(self, home: Home, source: Home) -> bool:
        """Whether `home` is one server of the same type with at most as many spare devices, all of them free now."""
        nodes = self.cluster.nodes
        return (
            len(home.nodes) == 1
            and 0 < home.spare <= source.spare
            and len(home.free) >= home.spare
            and nodes[home.nodes[0]].type == nodes[source.nodes[0]].type
        )

    # --- growing

    def _grow(self) -> None:
        """Let elastic jobs take the free devices of their homes, if no job waits."""
        if self._queue or any(home.crowded for home in self.homes):
            return
        for home in self.homes:
            for job in home.residents:
                most = job.elastic[1] if job.elastic else job.gpus
                held = self.held(job)
                if not home.free or len(held) >= most or held != job.devices or job.number in self._grown:
                    continue
                more = home.put(min(len(home.free), most - len(held)))
                self._resize(job, tuple(sorted([*held, *more])))
                self._grown[job.number] = job

    def _shrink(self) -> None:
        for job in self._grown.values():
            held = self.held(job)
            self.homes.of[job.number].back(held[job.gpus :])
            self._resize(job, held[: job.gpus])
        self._grown.clear()

    def _resize(self, job: JobView, devices: Devices) -> None:
        self.hold(job, devices)
        self.act(Resize(job, devices))

    def counted(self) -> Mapping[str, float]:
        """How often jobs were placed (by case of Algorithm 1), packed, unpacked and moved."""
        return self._counts
