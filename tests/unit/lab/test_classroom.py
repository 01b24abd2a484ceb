"""A class: students at one server all at once, each with a sign-in of their own, and their teacher."""

from __future__ import annotations

import csv
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paictl.cli.lab.classpages import extension_of
from paictl.errors import PaictlError
from paictl.lab.classroom import (
    LAB,
    PASSWORDS,
    TEACHER,
    Classroom,
    Standing,
    Student,
    job_of,
    numbered,
    students_from,
)
from paictl.lab.manifest import find_lab
from paictl.lab.messages import LabError
from paictl.lab.report.content import Author, make_report
from paictl.lab.report.files import rendered
from paictl.lab.visitor import Visitor
from paictl.operate.users import passwords
from paictl.server.serving import in_background
from tests.unit.lab.conftest import Begin

LAB_21 = find_lab(LAB)


WHOLE = int(os.environ.get("PAICTL_CLASS", "0"))
"""How many students come, with passwords as dear as they are: `PAICTL_CLASS=30 pytest -k all_at_once`."""


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of passwords that cost nothing: what they are worth is tested elsewhere."""
    if not WHOLE:
        monkeypatch.setattr(passwords, "COST", (4, 8, 1))


def room_of(folder: Path, number: int) -> Classroom:
    room = Classroom(folder / "class")
    room.start(numbered([(f"s{one:02}", f"Student {one}") for one in range(1, number + 1)]), speed="0")
    return room


def passwords_of(room: Classroom) -> dict[str, str]:
    with (room.folder / PASSWORDS).open(encoding="utf-8") as file:
        return {row["user"]: row["password"] for row in csv.DictReader(file)}


def job(student: Student, task: str) -> str:
    return job_of(LAB_21, next(one for one in LAB_21.in_class if one.id == task), student)


def study(base: str, student: Student, password: str, report: str) -> list[int]:
    """A whole lesson of one student; the status of every answer."""
    me = Visitor(base, student.user, password)
    me.sign_in()
    got = [me.page("/").status, me.page("/class").status]
    got.append(me.submit_on_page(job(student, "portal")).status)
    me.ask_for_token()
    got.append(me.submit_by_rest(job(student, "rest")).status)
    got.append(me.page(f"/jobs/{student.user}/job-2").status)
    got.append(me.submit_by_rest(job(student, "refused")).status)
    got.append(me.rest("GET", f"/jobs/{student.user}~job-2").status)
    got.append(me.rest("PUT", "/class/report", report, "text/plain").status)
    got.append(me.page("/class/live").status)
    return got


def by_user(standings: list[Standing]) -> dict[str, Standing]:
    return {one.student.user: one for one in standings}


@pytest.mark.parametrize("number", [WHOLE or 8])
def test_a_class_works_at_one_server_all_at_once_without_an_error(tmp_path: Path, begin: Begin, number: int) -> None:
    session, runner = begin("02")
    runner("paictl job submit job-2.yaml")
    report = rendered(make_report(session.root, Author("Ann"), "en"), ".html")
    room = room_of(tmp_path, number)
    given = passwords_of(room)
    with in_background(room.cluster, extension=extension_of(room)) as base, ThreadPoolExecutor(number) as pool:
        lessons = pool.map(lambda one: study(base, one, given[one.user], report), room.students)
        assert list(lessons) == [[200, 200, 303, 202, 200, 403, 200, 201, 200]] * number
        teacher = Visitor(base, TEACHER, given[TEACHER])
        teacher.sign_in()
        shown = teacher.page("/class").text
        teacher.ask_for_token()
        told = teacher.rest("GET", "/class").data["items"]
    assert f"{number} of {number} students have completed everything" in shown
    assert [one["user"] for one in told] == [student.user for student in room.students]
    assert all(one["complete"] and one["jobs"] == {"Waiting": 1, "Running": 1} for one in told)
    standings = room.standings(LAB_21, room.cluster())
    assert all(one.complete and one.report and one.report.labs == 1 for one in standings)


def test_a_task_is_done_by_its_own_student_only(tmp_path: Path) -> None:
    room = room_of(tmp_path, 2)
    given, (first, second) = passwords_of(room), room.students
    with in_background(room.cluster, extension=extension_of(room)) as base:
        me = Visitor(base, "s01", given["s01"])
        me.sign_in()
        me.ask_for_token()
        assert me.submit_by_rest(job(first, "portal")).status == 202
        assert me.submit_on_page(job(second, "rest")).status == 403
        page = me.page("/class").text
        assert me.rest("GET", "/class").status == 403
        assert me.rest("PUT", "/class/report", "hello", "text/plain").status == 400
    standings = by_user(room.standings(LAB_21, room.cluster()))
    done = {task for task, is_done in standings["s01"].done.items() if is_done}
    assert done == {"sign-in", "refused"}  # job-1 came by REST, not by the portal
    assert not any(standings["s02"].done.values())
    assert "virtualCluster: vc01" in page
    assert "s02" not in page


def test_only_students_hand_reports_in_and_the_last_one_counts(tmp_path: Path, begin: Begin) -> None:
    room, (session, _) = room_of(tmp_path, 1), begin("02")
    given = passwords_of(room)
    texts = [rendered(make_report(session.root, Author("Ann"), "en"), form) for form in (".html", ".md", ".json")]
    with in_background(room.cluster, extension=extension_of(room)) as base:
        me = Visitor(base, "s01", given["s01"])
        me.ask_for_token()
        assert [me.rest("PUT", "/class/report", text, "text/plain").status for text in texts] == [201, 201, 201]
        assert me.rest("PUT", "/class/report", json.dumps({"experiments": [1], "name": "x"}), "").status == 400
        teacher = Visitor(base, TEACHER, given[TEACHER])
        teacher.ask_for_token()
        assert teacher.rest("PUT", "/class/report", texts[0], "text/plain").status == 403
    ((_, path),) = room.report_files()
    assert (path.name, path.read_text(encoding="utf-8")) == ("s01.json", texts[2])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_passwords_are_for_the_teacher_alone_and_differ(tmp_path: Path) -> None:
    room = room_of(tmp_path, 3)
    given = passwords_of(room)
    assert set(given) == {TEACHER, "s01", "s02", "s03"}
    assert len(set(given.values())) == 4
    assert stat.S_IMODE((room.folder / PASSWORDS).stat().st_mode) == 0o600
    assert stat.S_IMODE(room.folder.stat().st_mode) == 0o700
    configuration = "".join(room.cluster().configuration().files.values())
    assert "only-on-this-machine" not in configuration
    with pytest.raises(LabError, match="a class of 3 students already"):
        room.start(numbered([("ann", "")]))


def test_a_beginning_that_was_interrupted_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(passwords, "hashed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            room_of(tmp_path, 2)
    assert not Classroom(tmp_path / "class").begun
    assert len(room_of(tmp_path, 2).students) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ann,Ann Li\nann,Bob\n", "is listed twice"),
        ("../ann\n", "cannot be the user name"),
        ("teacher\n", "cannot be the user name"),
        ("# nobody\n", "1 to 200 students, not 0"),
        ("".join(f"s{one}\n" for one in range(201)), "1 to 200 students, not 201"),
    ],
)
def test_a_list_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(PaictlError, match=said):
        students_from(text)


def test_a_list_may_have_names_and_comments() -> None:
    found = students_from('# class 4\nann,"Li, Ann"\n\nbob\n')
    assert found == [Student("ann", "Li, Ann", "vc01"), Student("bob", "", "vc02")]
