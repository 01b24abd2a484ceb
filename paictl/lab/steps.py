"""Playing commands: from the command line that a student types to functions on the `Cluster` interface.

The table knows the commands that change a cluster and those that labs show most; it takes the same words and options as
the command line, less what concerns output only. Whatever it does not know goes to `Player.other`, which the command
line provides. A test plays every lab both ways and compares the events.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NoReturn, Protocol, cast, runtime_checkable

from paictl.cluster.interface import Cluster, ClusterError
from paictl.cluster.jobfiles import Wishes, requests_in
from paictl.errors import PaictlError
from paictl.lab.journal import Typed, spelled
from paictl.lab.manifest import Act, Lab
from paictl.sim.loop import Millis
from paictl.workload.duration import parse_duration

Runner = Callable[[Sequence[str]], Typed]
"""Carries out words that follow ``paictl``."""

Typist = Callable[[str], Typed]
"""Carries out a command line: `Player.play`, or the command line itself."""


@runtime_checkable
class HandClock(Protocol):
    """A cluster whose time is advanced by hand."""

    def tick(self, span: Millis | None) -> Millis:
        """Let a span pass, or (None) everything that will happen."""


@dataclass(frozen=True)
class Player:
    """Types for a student: `open_cluster` finds the cluster anew for each command, as a shell does.

    Files are taken from `folder`; `user` owns the jobs.
    """

    open_cluster: Callable[[], Cluster]
    folder: Path
    user: str
    other: Runner | None = None

    def play(self, command: str) -> Typed:
        """Carry a command line out; a refusal is an outcome, not an exception."""
        words = shlex.split(command)[1:]
        verb = _TABLE.get(tuple(words[:2]))
        try:
            if verb is not None:
                arguments = verb.parser().parse_args(words[2:])
                verb.act(self, arguments)
                return Typed(spelled(words), 0)
        except PaictlError as error:
            return Typed(spelled(words), int(error.exit_code), str(error), error.hint or "")
        except _OtherOptionsError:
            pass
        if self.other is None:
            raise PaictlError(f"no step can be {command!r}", hint="lab.steps knows no such command")
        return self.other(words)


def prepare(lab: Lab, act: Act, folder: Path) -> None:
    """Copy and edit the student's files as an act says; raises `PaictlError` where an edit finds no place."""
    for name, source in act.copies.items():
        (folder / name).write_bytes((lab.folder / source).read_bytes())
    for edit in act.edits:
        path = folder / edit.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if text.count(edit.find) != 1:
            said = f"{edit.find!r} stands {text.count(edit.find)} times in it, not once"
            raise PaictlError(said, where=str(path), hint="begin again: paictl lab reset")
        path.write_text(text.replace(edit.find, edit.write), encoding="utf-8")


# --- the table


class _OtherOptionsError(Exception):
    """The table does not know these options."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Leave the command to `Player.other`, whose messages are those that students see."""
        raise _OtherOptionsError(message)


@dataclass(frozen=True)
class _Verb:
    """A command: what it does, and its words: ``name*`` and ``name?`` as in argparse, ``--flag!``."""

    act: Callable[[Player, argparse.Namespace], None]
    words: str = ""

    def parser(self) -> _Parser:
        """The parser of what follows the verb."""
        return _parser(self.words)


@cache
def _parser(words: str) -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output")
    for word in words.split():
        name, mark = word.rstrip("*?!"), word[-1]
        if mark == "!":
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, nargs=mark if mark in "*?" else None)
    return parser


def _submit(player: Player, given: argparse.Namespace) -> None:
    if not given.files:
        raise PaictlError("no job file given", hint="paictl job submit FILE")
    wishes = Wishes(given.vc, given.priority, given.duration, given.name, int(given.repeat or 1))
    paths = [str(player.folder / file) for file in given.files]
    player.open_cluster().submit(list(requests_in(paths, given.user or player.user, wishes)))


def _key(player: Player, word: str) -> str:
    return word if "~" in word else f"{player.user}~{word}"


def _stop(player: Player, given: argparse.Namespace) -> None:
    _each(given.jobs, lambda job: player.open_cluster().stop_job(_key(player, job)))


def _each(names: Iterable[str], act: Callable[[str], object]) -> None:
    """Act on all; the first error is told when all were tried."""
    errors: list[PaictlError] = []
    for name in names:
        try:
            act(name)
        except PaictlError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _change_node(change: str) -> _Verb:
    def act(player: Player, given: argparse.Namespace) -> None:
        cluster = player.open_cluster()
        known = {view.machine.name for view in cluster.nodes()}
        for name in given.names:
            if name not in known:
                raise ClusterError(f"there is no node {name!r}", hint="paictl node list")
        for name in given.names:
            cluster.set_node(name, change)

    return _Verb(act, "names*")


def _tick(player: Player, given: argparse.Namespace) -> None:
    cluster = player.open_cluster()
    if not isinstance(cluster, HandClock):
        raise ClusterError("the time of this cluster cannot be advanced by hand", hint="wait until then")
    if (given.span is None) == (not given.until_idle):
        raise PaictlError("say how far the clock goes", hint="paictl cluster tick 10m, or --until-idle")
    cluster.tick(None if given.span is None else Millis(round(parse_duration(given.span) * 1000)))


def _look(ask: Callable[[Cluster, str], object]) -> Callable[[Player, argparse.Namespace], None]:
    """A command that only looks: it is asked, so that a wrong name is refused."""
    return lambda player, given: cast(None, ask(player.open_cluster(), _key(player, getattr(given, "job", ""))))


_TABLE: Final[Mapping[tuple[str, ...], _Verb]] = {
    ("job", "submit"): _Verb(_submit, "files* --vc --priority --duration --name --repeat --user"),
    ("job", "stop"): _Verb(_stop, "jobs*"),
    ("job", "list"): _Verb(_look(lambda cluster, _: cluster.jobs()), "--unfinished!"),
    ("job", "show"): _Verb(_look(lambda cluster, key: cluster.job(key)), "job"),
    ("job", "logs"): _Verb(_look(lambda cluster, key: cluster.job(key)), "job"),
    ("job", "explain"): _Verb(_look(lambda cluster, key: cluster.explain(key)), "job"),
    ("node", "list"): _Verb(_look(lambda cluster, _: cluster.nodes())),
    ("node", "cordon"): _change_node("cordon"),
    ("node", "uncordon"): _change_node("uncordon"),
    ("node", "fail"): _change_node("fail"),
    ("node", "heal"): _change_node("heal"),
    ("cluster", "status"): _Verb(_look(lambda cluster, _: cluster.nodes())),
    ("cluster", "events"): _Verb(_look(lambda cluster, _: cluster.events()), "--subject"),
    ("cluster", "tick"): _Verb(_tick, "span? --until-idle!"),
}
