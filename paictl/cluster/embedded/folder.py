"""A cluster in a folder: what there is to see of it, how a command is carried out, and what is kept.

What was written down answers who only looks, as long as nothing has happened since (`present`). For all else the world
is read, time passes in it, it acts and is stored, which loads the scheduler and everything around it (`world`, `views`,
`serialization`, `analysis`). Most short commands never need that, so the methods that do import these modules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from paictl.cluster.embedded.commands import BringUp, Line, LoggedCommand, RunOut, Tick, apply, replay
from paictl.cluster.embedded.present import KEY, Clock, Present, Still, planned_beginning, wall_time
from paictl.cluster.embedded.store import HistoryKind, Store, whole
from paictl.cluster.interface import About, ClusterError
from paictl.i18n import text
from paictl.units import Millis, instant, unix_millis

if TYPE_CHECKING:
    from paictl.cluster.embedded.analysis import WorldQuestions
    from paictl.cluster.embedded.sidefiles import EmbeddedUsers, SideFiles
    from paictl.cluster.embedded.views import WorldViews
    from paictl.cluster.embedded.world import World
    from paictl.cluster.storages import Credentials, Storage
    from paictl.cluster.templates import TemplateLibrary

Given = TypeVar("Given")


class ClusterInFolder:
    """The file of a cluster, its clock, and its world once that is needed.

    `wall` gives Unix time in seconds (tests have their own).
    """

    def __init__(self, store: Store, wall: Callable[[], float] = wall_time) -> None:
        self._store = store
        self._present = Present(store, wall)
        self._awake = False
        """Whether the world was needed since the clock was set: then it is asked, whatever was written down."""
        self._read: tuple[int, World] | None = None
        """Version of the file, and the world that was read from it: answers in a row need not read it again."""

    # --- life

    @classmethod
    def up(
        cls,
        folder: Path,
        command: BringUp,
        then: Iterable[LoggedCommand] = (),
        *,
        clock: tuple[float, bool] | None = None,
        wall: Callable[[], float] = wall_time,
    ) -> Self:
        """Bring a cluster up; `clock` is (speed, run out), as fast as time passes by default.

        Where a beginning was planned for the folder, it begins then, and unless a clock is given that one stands.
        The cluster begins with the commands in `then` carried out, or does not begin. Raises `ConflictError` if one is
        up in the folder.
        """
        world = command.begin()
        planned = planned_beginning(folder)
        start = wall() if planned is None else planned
        speed, run_out = clock or ((1.0, False) if planned is None else (0.0, False))

        def fill(store: Store) -> None:
            store.set_meta("name", world.name)
            new = cls(store, wall)
            new._present.begin(start, speed, run_out=run_out)
            world.epoch = unix_millis(new.epoch)
            store.append_log(Millis(0), command.line())
            for further in then:
                apply(world, Millis(0), further)
                store.append_log(Millis(0), further.line())
            new._keep(new._views(world))

        return cls(Store.create(folder, fill), wall)

    @classmethod
    def at(cls, folder: Path, wall: Callable[[], float] = wall_time) -> Self:
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

    # --- time

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""
        return self._present.epoch

    @property
    def clock(self) -> Clock:
        """The clock as the last command left it."""
        return self._present.clock

    @property
    def now(self) -> datetime:
        """The present instant."""
        return instant(self.epoch, self.present)

    @property
    def present(self) -> Millis:
        """The present on the cluster's own clock."""
        return self._present.instant

    @property
    def pace(self) -> float | None:
        """How many times faster than the wall clock it goes; None where it runs out after every command."""
        clock = self.clock
        return None if clock.run_out else clock.speed

    def tick(self, span: Millis | None) -> datetime:
        """Advance the clock by hand: by a span, or (None) until nothing more will happen; returns the new instant."""
        command: LoggedCommand = RunOut() if span is None else Tick(span)
        return instant(self.epoch, self._ask(command, lambda views: views.world.now))

    def set_speed(self, speed: float, *, run_out: bool) -> None:
        """Let the clock run at another speed from now on."""
        with self._store.writing():
            self._present.set_speed(speed, run_out=run_out)
            self._awake, self._read = False, None

    # --- what lies beside the file

    @property
    def users(self) -> EmbeddedUsers:
        """Accounts and tokens, in a file of their own."""
        return self._side_files.users

    def storages(self) -> Sequence[Storage]:
        """All storages by name."""
        return self._side_files.storages.read()

    def add_storage(self, storage: Storage, credentials: Credentials | None = None) -> None:  # noqa: ARG002
        """Add a storage; nothing is mounted here, so credentials are not kept."""
        self._side_files.storages.add(storage)

    def grant_storage(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage."""
        return self._side_files.storages.grant(name, add, revoke)

    def remove_storage(self, name: str) -> None:
        """Remove a storage from the list."""
        self._side_files.storages.remove(name)

    def template_libraries(self) -> Sequence[TemplateLibrary]:
        """All libraries of job templates by name."""
        return self._side_files.templates.read()

    def put_template_library(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        self._side_files.templates.put(library, new=new)

    def remove_template_library(self, name: str) -> None:
        """Remove a library."""
        self._side_files.templates.remove(name)

    @property
    def _side_files(self) -> SideFiles:
        from paictl.cluster.embedded.sidefiles import SideFiles  # late: few commands are about what is in them

        return SideFiles(self._store.folder)

    # --- what is stored

    def replayed(self) -> dict[str, Any]:
        """The state computed anew from the command log alone; equal to the stored one, or there is a bug."""
        world = replay(self.log(), unix_millis(self.epoch))
        dumped: dict[str, Any] = json.loads(json.dumps(self._views(world).state()))
        return dumped

    def log(self) -> list[tuple[Millis, Line]]:
        """(instant, line) of everything that changed the cluster, in order; `commands.replay` reads it."""
        with self._store.reading():
            return list(self._store.log())

    def stored(self) -> dict[str, Any]:
        """The state as stored."""
        with self._store.reading():
            return self._store.state()

    # --- the way to the disk and back

    @contextmanager
    def _look(self) -> Iterator[Still | WorldViews]:
        """What there is to see now: what was written down where that holds and the world is not at hand."""
        if not self._awake:
            with self._store.reading():
                written = Still.of(self._store, self._present)
                if written is not None:
                    yield written
                    return
        with self._world() as world:
            yield self._views(world)

    @contextmanager
    def _world(self) -> Iterator[World]:
        """The world as it is now, for looking at it only."""
        self._awake = True
        with self._store.reading():
            version = self._store.version()
            if self._read is None or self._read[0] != version:
                self._read = version, self._read_world()
            world = self._read[1]
            world.advance(self._present.instant)
            yield world

    def _views(self, world: World) -> WorldViews:
        """A world as the interface shows it."""
        from paictl.cluster.embedded.views import WorldViews

        return WorldViews(world, self._store, self.epoch)

    @contextmanager
    def _questions(self) -> Iterator[WorldQuestions]:
        """The world as it is now, for what only its scheduler knows."""
        from paictl.cluster.embedded.analysis import WorldQuestions  # late: most commands ask no scheduler

        with self._world() as world:
            yield WorldQuestions(self._views(world), self._store, self.epoch)

    def _do(self, command: LoggedCommand) -> None:
        """Carry a command out that has no answer."""
        self._ask(command, lambda _: None)

    def _ask(
        self,
        command: LoggedCommand,
        answer: Callable[[WorldViews], Given],
        check: Callable[[], None] = lambda: None,
        *,
        early: bool = False,
    ) -> Given:
        """Carry a command out in one transaction; `answer` is asked before the state is stored.

        `early` before a clock that runs out does: afterwards what was added may be over.
        """
        self._awake, self._read = True, None
        with self._store.writing():
            check()
            world = self._read_world()
            views, at = self._views(world), self._present.instant
            apply(world, at, command)
            self._store.append_log(at, command.line())
            given = answer(views) if early else None
            if self._present.clock.run_out and not isinstance(command, RunOut):
                world.advance(None)
                self._store.append_log(world.now, RunOut().line())
            if given is None:
                given = answer(views)
            self._keep(views)
        return given

    def _refuse_history(self, views: WorldViews, user: str) -> None:
        """Raise `ClusterError` if more would be kept of a user than may be; asked before anything is committed."""
        rules = views.world.sharing.rules
        if refusal := rules.history_limits.refusal(user, self._store.kept().get(user, 0)):
            raise ClusterError(
                refusal,
                hint=text(
                    "put large scripts into a storage or an image; an administrator can raise history-limits in the "
                    "section sharing"
                ),
            )

    def _read_world(self) -> World:
        """The world as it was stored; raises `ClusterError` for one that cannot have been stored so."""
        from paictl.cluster.embedded.serialization import load

        state = self._store.state()
        with whole():
            world = load(state)
        world.epoch = unix_millis(self.epoch)
        if world.sharing.month is None:
            world.sharing.count_month(self._store.usage)
        return world

    def _keep(self, views: WorldViews) -> None:
        """Store the state and what is new; the clock goes on from its instant."""
        world = views.world
        if HistoryKind.JOBS in world.wiped:
            self._store.forget_jobs()
        if HistoryKind.CONFIGURATIONS in world.wiped:
            self._store.forget_configs()
        self._store.append_events(world.events)
        self._store.append_usage(world.usage.closed)
        self._store.put_jobs(views.ended_rows())
        for version in world.pushed:
            self._store.put_config(version.number, version.at, version.message, version.files)
        self._store.note_kept()
        self._store.set_state(views.state())
        self._present.go_on(world.now)
        self._store.set_meta(KEY, views.written(self._store.seal()))
