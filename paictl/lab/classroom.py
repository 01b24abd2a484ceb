"""A class: one cluster, one server, a teacher, and students with an account and a virtual cluster each.

Everything lives in one folder (0700): the cluster, `students.json` (written last, so that a beginning that was
interrupted is none), what was requested from the server, and the reports that were handed in. How far somebody is
follows
from jobs, events and requests alone, none of which ever goes: nothing has to be kept beside them.
"""

from __future__ import annotations

import csv
import io
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from paictl.cluster.interface import (
    Cluster,
    ConfigVersion,
    DeviceTime,
    Event,
    JobState,
    JobView,
    NodeView,
    ServiceView,
    Users,
)
from paictl.cluster.presets import classroom_files
from paictl.cluster.scheduling import JobExplanation
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.lab import embedded, requests
from paictl.lab.checks import holds
from paictl.lab.commandlog import wall_clock
from paictl.lab.initial import beginning_with
from paictl.lab.manifest import ClassTask, Lab, Statement
from paictl.lab.messages import LabError
from paictl.lab.observation import Observation
from paictl.lab.report.files import form_of, unpacked
from paictl.operate.users import passwords
from paictl.operate.users.accounts import NAME, RESERVED, NewUser, add

LAB: Final = "21"
"""The lab whose tasks a class does at the server."""
TEACHER: Final = "teacher"
MARK: Final = "students.json"
PASSWORDS: Final = "passwords.csv"
REPORTS: Final = "reports"
REPORT_SIZE: Final = 16 * 2**20
"""Bytes of a report that is handed in; one of all labs has about two million."""
MOST: Final = 200
"""Students of a class: each has a node in the cluster and a row on the teacher's page."""


@frozen
class Student:
    """An account of the class; `vc` is promised one GPU and granted to no other account."""

    user: str
    name: str
    vc: str


@frozen
class HandedIn:
    """What a student's last report claims; `paictl lab check-report` tells whether it can be so."""

    at: str
    name: str
    file: str
    labs: int
    passed: int
    checks: int


@frozen
class Standing:
    """How far a student is: the tasks that are done, jobs by state, and the report if one was handed in."""

    student: Student
    done: Mapping[str, bool]
    jobs: Mapping[JobState, int] = field(default_factory=dict)
    report: HandedIn | None = None

    @property
    def complete(self) -> bool:
        """Whether every task is done and a report is there."""
        return all(self.done.values()) and self.report is not None


def students_from(text: str) -> list[Student]:
    """The students of a list, one ``user,full name`` a line (the name may be left out, ``#`` begins a comment).

    Raises `LabError` for a name that no account can have, and for one that appears twice.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    users: set[str] = set()
    for number, (user, *_) in enumerate(rows, 1):
        if not NAME.fullmatch(user) or user in RESERVED or user == TEACHER:
            raise LabError("class-name", number=number, user=user[:80])
        if user in users:
            raise LabError("class-twice", user=user)
        users.add(user)
    return numbered([(user, rest[0] if rest else "") for user, *rest in rows])


def numbered(people: Sequence[tuple[str, str]]) -> list[Student]:
    """Students from (user, full name), each with a virtual cluster; raises `LabError` for none and for too many."""
    if not 1 <= len(people) <= MOST:
        raise LabError("class-size", number=len(people), most=MOST)
    return [Student(user, name, f"vc{number:02}") for number, (user, name) in enumerate(people, 1)]


@frozen
class Classroom:
    """The class in a folder; it may not have begun."""

    folder: Path

    @property
    def begun(self) -> bool:
        """Whether there is a class."""
        return (self.folder / MARK).is_file()

    def require_begun(self) -> None:
        """Raise `LabError` if there is no class."""
        if not self.begun:
            raise LabError("no-class")

    @property
    def students(self) -> list[Student]:
        """The students by the order of the list; raises `LabError` if there is no class."""
        self.require_begun()
        return [Student(**row) for row in json.loads((self.folder / MARK).read_text(encoding="utf-8"))]

    def start(self, students: Sequence[Student], speed: str | None = None) -> None:
        """Make the cluster and the accounts, with a new password each in `PASSWORDS` (0600)."""
        if self.begun:
            raise LabError("class-begun", number=len(self.students))
        shutil.rmtree(self.folder, ignore_errors=True)  # what a start that was interrupted left
        self.folder.mkdir(mode=0o700, parents=True)
        files = classroom_files([student.vc for student in students], lambda: secrets.token_urlsafe(24))
        users = embedded.bring_up_class(self.folder, beginning_with(files), speed).users
        new = [NewUser(TEACHER, passwords.generated(), admin=True)]
        new += [NewUser(student.user, passwords.generated(), vcs=(student.vc,)) for student in students]
        with ThreadPoolExecutor() as pool:  # a hash takes a fifth of a second, and lets others work meanwhile
            list(pool.map(lambda account: add(users, account), new))
        names = {student.user: student for student in students}
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(("user", "name", "virtual cluster", "password"))
        for account in new:
            student = names.get(account.name)
            writer.writerow(
                (account.name, student.name if student else "", student.vc if student else "", account.password)
            )
        write_together(self.folder, {PASSWORDS: table.getvalue()}, mode=0o600)
        write_together(self.folder, {MARK: json.dumps([asdict(student) for student in students], ensure_ascii=False)})

    def cluster(self) -> Cluster:
        """The cluster of the class."""
        return embedded.open_cluster(self.folder)

    # --- how far everybody is

    def standings(self, lab: Lab, cluster: Cluster) -> list[Standing]:
        """Every student, in the order of the list."""
        sent_requests, jobs, events = requests.read(self.folder), cluster.jobs(), cluster.events()
        return [self._standing(lab, student, cluster, sent_requests, jobs, events) for student in self.students]

    def standing(self, lab: Lab, cluster: Cluster, user: str) -> Standing | None:
        """One student; None for a user who is not in the class."""
        student = next((student for student in self.students if student.user == user), None)
        if student is None:
            return None
        sent_requests, jobs, events = requests.read(self.folder), cluster.jobs(), cluster.events()
        return self._standing(lab, student, cluster, sent_requests, jobs, events)

    def _standing(
        self,
        lab: Lab,
        student: Student,
        cluster: Cluster,
        sent_requests: Sequence[requests.AskedRequest],
        jobs: Sequence[JobView],
        events: Sequence[Event],
    ) -> Standing:
        own_jobs = [job for job in jobs if job.key.startswith(f"{student.user}~")]
        own = [event for event in events if event.subject.startswith(f"job/{student.user}~")]
        observation = Observation(
            StudentView(cluster, own_jobs, own),
            asked=tuple(request for request in sent_requests if request.user == student.user),
        )
        done = {task.id: holds(observation, task_of(task, student).expect) for task in lab.in_class}
        states = {state: sum(job.state is state for job in own_jobs) for state in JobState}
        return Standing(
            student, done, {state: number for state, number in states.items() if number}, self.report_of(student.user)
        )

    # --- reports

    def hand_in(self, user: str, text: str) -> HandedIn:
        """Keep a student's report in place of an older one; raises `PaictlError` for what is not a report.

        Whether it is consistent costs as much as its labs have events, so that the teacher asks for it, not a request.
        """
        report = unpacked(text, "report")
        try:
            checks = [check["standing"] for experiment in report["experiments"] for check in experiment["checks"]]
            name, labs = str(report["name"])[:200], len(report["experiments"])
        except (KeyError, TypeError):
            raise PaictlError("contains no complete lab report", where="report") from None
        file = f"{user}{form_of(text)}"
        handed_in = HandedIn(wall_clock(), name, file, labs, checks.count("passed"), len(checks))
        folder = self.folder / REPORTS
        summary = json.dumps(asdict(handed_in), ensure_ascii=False)
        write_together(folder, {file: text, f"{user}.summary": summary}, force=True, mode=0o600)
        return handed_in

    def report_of(self, user: str) -> HandedIn | None:
        """What a student has handed in last, None for nothing."""
        path = self.folder / REPORTS / f"{user}.summary"
        return HandedIn(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def report_files(self) -> Iterator[tuple[Student, Path]]:
        """The files of the reports that were handed in, by student."""
        for student in self.students:
            report = self.report_of(student.user)
            if report is not None:
                yield student, self.folder / REPORTS / report.file


def task_of(task: ClassTask, student: Student) -> ClassTask:
    """A task with the names of a student in it."""
    names = {"user": student.user, "vc": student.vc}
    expect = tuple(Statement(statement.kind, _filled(statement.says, names)) for statement in task.expect)
    texts = {key: _filled(getattr(task, key), names) for key in ("job", "vc")}
    return ClassTask(task.id, task.says, task.text, expect, **texts)


def text_of(task: ClassTask, student: Student, language: str) -> str:
    """What a student reads of a task."""
    return str(_filled(task.text.of(language), {"user": student.user, "vc": student.vc}))


def job_of(lab: Lab, task: ClassTask, student: Student) -> str:
    """The job that a task is about as the student submits it, empty for none."""
    if not task.job:
        return ""
    written = (lab.folder / task.job).read_text(encoding="utf-8")
    vc = task_of(task, student).vc
    return re.sub(r"(?m)^(  virtualCluster: ).*$", lambda match: match[1] + vc, written)


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    if isinstance(value, str):
        for name, word in names.items():
            value = value.replace(f"{{{name}}}", word)
    return value


@frozen
class StudentView:
    """What a student's tasks are judged by: own jobs and own events of a cluster that all share."""

    cluster: Cluster
    own_jobs: Sequence[JobView]
    own_events: Sequence[Event]

    @property
    def name(self) -> str:
        """Its id."""
        return self.cluster.name

    @property
    def users(self) -> Users:
        """All accounts."""
        return self.cluster.users

    @property
    def now(self) -> datetime:
        """The instant there."""
        return self.cluster.now

    @property
    def epoch(self) -> datetime:
        """When it came up."""
        return self.cluster.epoch

    def jobs(self) -> Sequence[JobView]:
        """The student's jobs."""
        return self.own_jobs

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        return self.cluster.job(key)

    def nodes(self) -> Sequence[NodeView]:
        """All nodes."""
        return self.cluster.nodes()

    def services(self) -> Sequence[ServiceView]:
        """All services."""
        return self.cluster.services()

    def events(self) -> Sequence[Event]:
        """What has happened to the student's jobs."""
        return self.own_events

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions of the configuration."""
        return self.cluster.configurations()

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits."""
        return self.cluster.explain(key)

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """Who used which devices in a span of time."""
        return self.cluster.usage(start, end)
