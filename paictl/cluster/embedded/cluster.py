"""The embedded cluster behind the interface: every command loads the state, lets time pass, acts and stores it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from paictl.cluster.embedded import commands, written
from paictl.cluster.embedded.clock import Clock, anchor_row, steady, wall_time
from paictl.cluster.embedded.commands import BringUp, Line, LoggedCommand, RunOut, Submit, Tick
from paictl.cluster.embedded.imagined import ImaginedPods
from paictl.cluster.embedded.jobcodec import load_job, view_from
from paictl.cluster.embedded.jobpages import WithPages
from paictl.cluster.embedded.jobrows import row_of
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.jobviews import view_of
from paictl.cluster.embedded.records import HistoryKind
from paictl.cluster.embedded.services import SoleWriter
from paictl.cluster.embedded.store import Store, planned_beginning, whole
from paictl.cluster.embedded.users import WithUsers
from paictl.cluster.embedded.views import losses_of, node_views, service_view
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import About, ConfigVersion, Event, JobRequest, JobView, MachineSpec, NodeChange, Port
from paictl.cluster.jobwords import name_taken, no_job
from paictl.cluster.versions import moved_on, no_version
from paictl.units import Millis, from_unix, instant

if TYPE_CHECKING:
    from paictl.cluster.interface import NodeView, ServiceView
    from paictl.cluster.picture import Picture
    from paictl.cluster.scheduling import Impact, JobExplanation

Given = TypeVar("Given")


class EmbeddedCluster(WithUsers, WithPages, SoleWriter, ImaginedPods):
    """A cluster in a folder of this machine. `wall` gives Unix time in seconds (tests have their own)."""

    lacks: Mapping[Port, str] = MappingProxyType({})

    def __init__(self, store: Store, wall: Callable[[], float] = wall_time) -> None:
        super().__init__(store.folder)
        self._store = store
        self._clock = wall
        self._seen: tuple[int, World] | None = None
        """Version of the file, and the world that was read from it: answers in a row need not read it again."""

    # --- life

    @classmethod
    def up(
        cls, folder: Path, command: BringUp, then: Iterable[LoggedCommand] = (), *,
        clock: tuple[float, bool] | None = None, wall: Callable[[], float] = wall_time,
    ) -> EmbeddedCluster:  # fmt: skip
        """Bring a cluster up; `clock` is (speed, run out), as fast as time passes by default.

        Where a beginning was planned for the folder, it begins then, and unless a clock is given that one stands.
        The cluster begins with the commands in `then` carried out, or does not begin. Raises `ConflictError` if one is
        up in the folder.
        """
        world = command.begin()
        planned = planned_beginning(folder)
        start = wall() if planned is None else planned
        clock = clock or ((1.0, False) if planned is None else (0.0, False))

        def fill(store: Store) -> None:
            store.set_meta("name", world.name)
            store.set_meta("epoch", start)
            store.set_meta("clock", [0, start, *clock])
            if wall is wall_time:
                store.set_meta("anchor", anchor_row(start))
            store.append_log(Millis(0), command.line())
            for further in then:
                commands.apply(world, Millis(0), further)
                store.append_log(Millis(0), further.line())
            cls(store, wall)._keep(world)

        return cls(Store.create(folder, fill), wall)

    @classmethod
    def at(cls, folder: Path, wall: Callable[[], float] = wall_time) -> EmbeddedCluster:
        """The cluster in a folder; raises `UnreachableError` if none is up."""
        return cls(Store.open(folder), wall)

    def down(self) -> None:
        """Take the cluster down and forget everything."""
        self._store.close()
        Store.remove(self._store.folder)

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove a cluster that cannot be opened any more."""
        Store.remove(folder)

    @property
    def name(self) -> str:
        """The cluster's id."""
        return str(self._store.meta("name"))

    def about(self) -> About:
        """Where it lives; its software is this program."""
        return About("embedded", str(self._store.folder))

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""
        return from_unix(float(self._store.meta("epoch")))

    @property
    def clock(self) -> Clock:
        """The clock as the last command left it."""
        instant, wall, speed, run_out = self._store.meta("clock")
        return Clock(Millis(instant), wall, speed, run_out)

    def _wall(self) -> float:
        """Unix time as it goes on from when the cluster came up, or from the first command after a reboot."""
        return steady(self._store.meta("anchor"), wall_time()) if self._clock is wall_time else self._clock()

    @property
    def now(self) -> datetime:
        """The present instant."""
        return instant(self.epoch, self.present)

    @property
    def present(self) -> Millis:
        """The present on the cluster's own clock."""
        return self.clock.at(self._wall())

    @property
    def pace(self) -> float | None:
        """How many times faster than the wall clock it goes; None where it runs out after every command."""
        clock = self.clock
        return None if clock.run_out else clock.speed

    def tick(self, span: Millis | None) -> datetime:
        """Advance the clock by hand: by a span, or (None) until nothing more will happen; returns the new instant."""
        command: LoggedCommand = RunOut() if span is None else Tick(span)
        return instant(self.epoch, self._write(command, lambda world: world.now))

    def set_speed(self, speed: float, *, run_out: bool) -> None:
        """Let the clock run at another speed from now on."""
        with self._store.writing():
            now, wall = self.present, self._wall()
            self._store.set_meta("clock", [now, wall, speed, run_out])
            self._seen = None

    # --- nodes

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name."""
        with self._world() as world:
            return node_views(world, self.epoch)

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Cordon, uncordon, fail or heal a node."""
        return self._write(commands.SetNode(name, change), lambda world: _one(node_views(world, self.epoch), name))

    def add_node(self, machine: MachineSpec) -> NodeView:
        """A machine joins."""
        return self._write(commands.AddNode(machine), lambda world: _one(node_views(world, self.epoch), machine.name))

    def remove_node(self, name: str) -> None:
        """A machine leaves; its pods are lost."""
        self._write(commands.RemoveNode(name), lambda _: None)

    # --- jobs

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take jobs, all or none."""
        from paictl.cluster.taking import refuse_excess  # late, as below: only this request needs it

        refuse_excess(requests)  # before the file is locked for others
        keys = [f"{request.user}~{request.data.get('name')}" for request in requests]

        def check() -> None:
            taken = self._store.taken_keys(keys)
            if taken:
                raise name_taken(taken[0])

        def act(world: World) -> list[JobView]:
            ended = {job.key: job for job in world.ended}
            return [view_of(world.jobs.get(key) or ended[key], self.epoch) for key in keys]

        return self._write(Submit.hiding(requests), act, check)

    def stop_job(self, key: str) -> None:
        """End a job; nothing to do for one that has ended."""
        with self._world() as world:
            ended = self._job(world, key).status.state.final
        if not ended:
            self._write(commands.StopJob(key), lambda _: None)

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""
        with self._world() as world:
            fresh = [*world.jobs.values(), *(world.ended if ended else ())]
            found = [(job.number, view_of(job, self.epoch, tasks=False)) for job in fresh]
            if ended:
                found += [(number, view_from(view, self.epoch)) for number, view in self._store.ended_views()]
            return [view for _, view in sorted(found, key=lambda pair: pair[0])]

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        with self._world() as world:
            return view_of(self._job(world, key), self.epoch)

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run."""
        from paictl.cluster.embedded.explain import explain_job

        with self._world() as world:
            return explain_job(world, self._job(world, key))

    def foresee(self, request: JobRequest) -> JobExplanation:
        """What would become of a job that was submitted now."""
        from paictl.cluster.embedded.explain import foresee_job

        with self._world() as world:
            return foresee_job(world, request)

    def _job(self, world: World, key: str) -> LiveJob:
        for job in [*world.jobs.values(), *world.ended]:
            if job.key == key:
                return job
        row = self._store.job(key)
        if row is not None:
            return load_job(row.data)
        raise no_job([*self._store.job_keys(), *(job.key for job in world.ended), *world.jobs], key)

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        from paictl.cluster.embedded.impact import impact_of

        with self._world() as world:
            return list(impact_of(world, files))

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs at one instant; with `history` ended jobs and the timeline, too."""
        from paictl.cluster.embedded.picture import picture

        with self._world() as world:
            epoch, nodes = self.epoch, node_views(world, self.epoch)
            if not history:
                return picture(world, epoch, nodes)
            ended = [*(load_job(row.data) for row in self._store.ended_jobs()), *world.ended]
            events = [happened.event(epoch) for happened in (*self._store.events(), *world.events)]
            return picture(world, epoch, nodes, ended, events)

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """Events in order, of one object or of all."""
        with self._world() as world:
            fresh = [event for event in world.events if subject in (None, event.subject) and event.number > after]
            epoch = self.epoch
            return [happened.event(epoch) for happened in (*self._store.events(subject, after), *fresh)]

    # --- configuration

    def configuration(self, number: int | None = None) -> ConfigVersion:
        """A version of the configuration, the newest without a number."""
        found = self.configurations()
        if number is None and found:
            return found[-1]
        for version in found:
            if version.number == number:
                return version
        raise no_version(number, found[-1].number if found else 0)

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions, oldest first."""
        with self._store.reading():
            epoch = self.epoch
            return [pushed.version(epoch) for pushed in self._store.configs()]

    def push(
        self, files: Mapping[str, str], message: str, *, base: int | None = None,
        secrets: Mapping[str, str] | None = None,  # noqa: ARG002 - imagined services need no password
    ) -> ConfigVersion:  # fmt: skip
        """Store a new version; running services go on with what they loaded.

        Raises `ConflictError` if `base` is given and is not the newest version any more.
        """

        def check() -> None:
            newest = self._store.newest_config()
            if base not in (None, newest):
                raise moved_on(newest)

        return self._write(commands.Push(files, message), lambda world: world.pushed[-1].version(self.epoch), check)

    # --- services

    def services(self, *, closely: bool = False) -> Sequence[ServiceView]:  # noqa: ARG002 - all is known at once
        """All services that are there, by name."""
        with self._world() as world:
            return [service_view(world, service, self.epoch) for service in world.services if service.there]

    def refresh_service(self, name: str, *, take_over: bool = False) -> None:  # noqa: ARG002
        """Stop and start a service in one transaction."""
        self.restart_services([name])

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:  # noqa: ARG002
        """Start a service (loading the newest configuration) or stop it."""
        return self._write(
            commands.SetService(name, running), lambda world: service_view(world, world.services.get(name), self.epoch)
        )

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:  # noqa: ARG002
        """Stop services, the last first, and start them again in order, in one transaction."""
        self._write(commands.RestartServices(tuple(names)), lambda _: None)

    def losses(self, name: str) -> Sequence[str]:
        """What deleting a service would destroy, as lines for people."""
        with self._world() as world:
            ended, versions = self._store.count_jobs() + len(world.ended), sum(1 for _ in self._store.configs())
            return losses_of(world, name, ended, versions)

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:  # noqa: ARG002 - they go with it
        """Stop a service and destroy its data; the command log keeps what was asked, as it does for all commands."""
        self._write(commands.WipeService(name), lambda _: None)

    # --- the way to the disk and back

    @contextmanager
    def _world(self) -> Iterator[World]:
        """The cluster as it is now, for looking at it only."""
        with self._store.reading():
            version = self._store.version()
            if self._seen is None or self._seen[0] != version:
                self._seen = version, self._read_world()
            world = self._seen[1]
            world.advance(self.present)
            yield world

    def _write(
        self, command: LoggedCommand, answer: Callable[[World], Given], check: Callable[[], None] = lambda: None
    ) -> Given:
        """Carry a command out in one transaction; `answer` is asked before the state is stored."""
        self._seen = None
        with self._store.writing():
            check()
            world = self._read_world()
            at = self.present
            commands.apply(world, at, command)
            self._store.append_log(at, command.line())
            if self.clock.run_out and not isinstance(command, RunOut):
                world.advance(None)
                self._store.append_log(world.now, RunOut().line())
            given = answer(world)
            self._keep(world)
        return given

    def _read_world(self) -> World:
        """The world as it was stored; raises `ClusterError` for one that cannot have been stored so."""
        state = self._store.state()
        with whole():
            return written.load(state)

    def _keep(self, world: World) -> None:
        """Store the state and what is new; the clock goes on from its instant."""
        if HistoryKind.JOBS in world.wiped:
            self._store.forget_jobs()
        if HistoryKind.CONFIGURATIONS in world.wiped:
            self._store.forget_configs()
        self._store.append_events(world.events)
        self._store.put_jobs(row_of(job, self.epoch) for job in world.ended)
        for version in world.pushed:
            self._store.put_config(version.number, version.at, version.message, version.files)
        self._store.set_state(written.dump(world))
        wall = self._wall()
        clock = self.clock.set(world.now, wall)
        if self._store.meta("anchor") is not None:  # a reboot since then begins a new one
            self._store.set_meta("anchor", anchor_row(wall))
        self._store.set_meta("clock", [clock.instant, clock.wall, clock.speed, clock.run_out])

    def replayed(self) -> dict[str, Any]:
        """The state computed anew from the command log alone; equal to the stored one, or there is a bug."""
        dumped: dict[str, Any] = json.loads(json.dumps(written.dump(commands.replay(self.log()))))
        return dumped

    def log(self) -> list[tuple[Millis, Line]]:
        """(instant, line) of everything that changed the cluster, in order; `commands.replay` reads it."""
        with self._store.reading():
            return list(self._store.log())

    def stored(self) -> dict[str, Any]:
        """The state as stored."""
        with self._store.reading():
            return self._store.state()


def _one(views: Sequence[NodeView], name: str) -> NodeView:
    return next(view for view in views if view.machine.name == name)
