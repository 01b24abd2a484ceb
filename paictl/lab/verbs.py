"""The table of commands that steps can type, and what each does to a cluster through its interface."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

from paictl.cluster.interface import Cluster, ClusterError, HandClock, NodeChange
from paictl.config.linting.validate import Choice, validate
from paictl.config.pushing.fileset import read_folder
from paictl.config.pushing.push import of_services, prepare_push
from paictl.config.reading.load import load
from paictl.config.reading.problem import Severity
from paictl.errors import PaictlError
from paictl.operate.jobfiles import Wishes, requests_in
from paictl.service.carry_out import carry_out
from paictl.service.catalogue import load_catalogue
from paictl.service.live import sight_of
from paictl.service.plan import Action, Wish, make_plan
from paictl.units import Millis, parse_duration


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a command is typed: the cluster, the folder with the files, and whose jobs they are."""

    cluster: Cluster
    folder: Path
    user: str

    def key(self, word: str) -> str:
        """A job by ``user~name``, or by name alone for the student's own."""
        return word if "~" in word else f"{self.user}~{word}"


Verb = Callable[[Desk, argparse.Namespace], object]


class _OtherOptionsError(Exception):
    """The table does not know these words."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Leave the command to the command line, whose messages are those that students see."""
        raise _OtherOptionsError(message)


@cache
def _parser(words: str) -> _Parser:
    """``name``, ``name?`` and ``name*`` as in argparse; ``--flag!`` has no value, ``-n+`` may stand several times."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    for word in words.split():
        name, mark = word.rstrip("*?!+"), word[-1]
        if mark == "!":
            parser.add_argument(name, action="store_true")
        elif mark == "+":
            parser.add_argument(name, action="append", default=[])
        else:
            parser.add_argument(name, nargs=mark if mark in "*?" else None)
    return parser


def understood(words: list[str]) -> Callable[[Desk], object] | None:
    """What a command line (without ``paictl``) does at a desk; None if the table does not know it."""
    act, options = _TABLE.get(tuple(words[:2]), (None, ""))
    if act is None:
        return None
    try:
        given = _parser(options).parse_args(words[2:])
    except _OtherOptionsError:
        return None
    return lambda desk: act(desk, given)


# --- jobs and nodes


def _submit(desk: Desk, given: argparse.Namespace) -> object:
    if not given.files:
        raise PaictlError("no job file given", hint="paictl job submit FILE")
    wishes = Wishes(given.vc, given.priority, given.duration, given.name, int(given.repeat or 1))
    paths = [str(desk.folder / file) for file in given.files]
    return desk.cluster.submit(list(requests_in(paths, given.user or desk.user, wishes)))


def _stop(desk: Desk, given: argparse.Namespace) -> None:
    """Stop all; the first error is told when all were tried."""
    errors: list[PaictlError] = []
    for job in given.jobs:
        try:
            desk.cluster.stop_job(desk.key(job))
        except PaictlError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _change_node(change: NodeChange) -> tuple[Verb, str]:
    def act(desk: Desk, given: argparse.Namespace) -> None:
        known = {view.machine.name for view in desk.cluster.nodes()}
        for name in given.names:
            if name not in known:
                raise ClusterError(f"there is no node {name!r}", hint="paictl node list")
        for name in given.names:
            desk.cluster.set_node(name, change)

    return act, "names*"


def _tick(desk: Desk, given: argparse.Namespace) -> object:
    if not isinstance(desk.cluster, HandClock):
        raise ClusterError("the time of this cluster cannot be advanced by hand", hint="wait until then")
    if (given.span is None) == (not given.until_idle):
        raise PaictlError("say how far the clock goes", hint="paictl cluster tick 10m, or --until-idle")
    return desk.cluster.tick(None if given.span is None else Millis(round(parse_duration(given.span) * 1000)))


# --- services and configuration


def _service(action: Action) -> tuple[Verb, str]:
    def act(desk: Desk, given: argparse.Namespace) -> None:
        catalogue = load_catalogue()
        wish = Wish(action, (*given.n, *given.more), tuple(given.k))
        plan = make_plan(wish, catalogue, sight_of(desk.cluster).states)
        if plan.blocked:
            raise PaictlError("nothing was done", hint=plan.blocked[0].hint)
        for outcome in carry_out(plan, catalogue, desk.cluster):
            if outcome.error is not None:
                raise outcome.error

    return act, "more* -n+ -k+"


def _push(desk: Desk, given: argparse.Namespace) -> None:
    path = str(desk.folder / given.p)
    files = read_folder(path)
    report = validate(load([str(Path(path, name)) for name in files]), Choice(severity=Severity.ERROR))
    if report.problems or report.failures:
        raise PaictlError("the files have errors, so nothing was sent", hint=f"paictl config validate {given.p}")
    versions = desk.cluster.configurations()
    chosen = of_services(files) if given.m == "service" else files
    prepared = prepare_push(chosen, dict(versions[-1].files) if versions else {}, given.drop)
    if prepared.changes:
        desk.cluster.push(prepared.files, "pushed")


_TABLE: Final[Mapping[tuple[str, ...], tuple[Verb, str]]] = {
    ("job", "submit"): (_submit, "files* --vc --priority --duration --name --repeat --user"),
    ("job", "stop"): (_stop, "jobs*"),
    ("job", "list"): (lambda desk, _: desk.cluster.jobs(), ""),
    ("job", "show"): (lambda desk, given: desk.cluster.job(desk.key(given.job)), "job"),
    ("job", "logs"): (lambda desk, given: desk.cluster.job(desk.key(given.job)), "job"),
    ("job", "explain"): (lambda desk, given: desk.cluster.explain(desk.key(given.job)), "job"),
    ("node", "list"): (lambda desk, _: desk.cluster.nodes(), ""),
    ("node", "cordon"): _change_node(NodeChange.CORDON),
    ("node", "uncordon"): _change_node(NodeChange.UNCORDON),
    ("node", "fail"): _change_node(NodeChange.FAIL),
    ("node", "heal"): _change_node(NodeChange.HEAL),
    ("service", "start"): _service(Action.START),
    ("service", "stop"): _service(Action.STOP),
    ("service", "restart"): _service(Action.RESTART),
    ("service", "refresh"): _service(Action.REFRESH),
    ("config", "push"): (_push, "-p -m --drop+ -y! --cluster-id"),
    ("cluster", "status"): (lambda desk, _: desk.cluster.nodes(), ""),
    ("cluster", "events"): (lambda desk, given: desk.cluster.events(given.subject), "--subject"),
    ("cluster", "tick"): (_tick, "span? --until-idle!"),
}
"""Verb → what it does, and its words for `_parser`."""
