"""`paictl lab class` and `lab visit`: what is typed by a teacher, and by somebody without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.cli.lab.classpages import extension_of
from paictl.cli.lab.inprocess import silent_runner
from paictl.lab.classroom import Classroom, numbered
from paictl.lab.manifest import find_lab
from paictl.lab.report.content import Author, make_report
from paictl.lab.report.files import rendered
from paictl.lab.session import Session
from paictl.operate.users import passwords
from paictl.server.serving import in_background
from tests.unit.cli.conftest import Paictl


@pytest.fixture
def room(home: Path, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    """A class of two, with hashes of passwords that cost nothing."""
    monkeypatch.setattr(passwords, "COST", (4, 8, 1))
    made = Classroom(home / "state" / "labs" / "class")
    made.start(numbered([("ann", "Ann Li"), ("bob", "Bob Wu")]), speed="0")
    return made


def report_of(folder: Path, name: str) -> str:
    session = Session(find_lab("02"), folder)
    if not session.workspace.started:
        session.start()
    return rendered(make_report(folder, Author(name), "en"), ".html")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status",), "there is no class"),
        (("collect", "-o", "x"), "there is no class"),
        (("stop", "-y"), "there is no class"),
        (("start",), "the number of students is missing"),
        (("start", "--students", "0"), "1 to 200 students, not 0"),
        (("start", "--students", "nosuch.csv"), "nosuch.csv"),
        (("start", "--students", "3", "--listen", "0.0.0.0:9186"), "passwords would be sent in clear"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    home: Path, paictl: Paictl, words: tuple[str, ...], said: str
) -> None:
    done = paictl("lab", "class", *words)
    assert done.code == 2
    assert said in done.err
    assert not Classroom(home / "state" / "labs" / "class").begun


def test_a_list_of_other_students_is_not_taken_for_the_class(room: Classroom, paictl: Paictl) -> None:
    done = paictl("lab", "class", "start", "--students", "2")
    assert done.code == 2
    assert "a class of 2 students already" in done.err
    assert [student.user for student in room.students] == ["ann", "bob"]


def test_reports_are_collected_checked_and_compared(room: Classroom, home: Path, paictl: Paictl) -> None:
    own = report_of(home / "a", "Ann Li")
    room.hand_in("ann", own)
    out = home / "reports"
    done = paictl("lab", "class", "collect", "-o", str(out))
    assert (done.code, (out / "ann.html").read_text(encoding="utf-8")) == (0, own)
    assert "ann.html: consistent; Ann Li, Ann Li" in done.out
    assert "nothing was handed in by bob" in done.err
    room.hand_in("bob", own.replace("Ann Li", "Bob Wu"))
    done = paictl("lab", "class", "collect", "-o", str(out))
    assert done.code == 1
    assert "bob.html: not consistent" in done.out
    shown = {one["user"]: one for one in paictl("lab", "class", "status", "-o", "json").data}
    assert {user: one["report"]["labs"] for user, one in shown.items()} == {"ann": 1, "bob": 1}
    assert not any(one["complete"] for one in shown.values())


def test_a_class_ends_by_its_name_and_is_kept(room: Classroom, home: Path, paictl: Paictl) -> None:
    assert paictl("lab", "class", "stop").code == 2
    assert len(room.students) == 2
    assert paictl("lab", "class", "stop", "-y").code == 0
    assert not room.folder.exists()
    (kept,) = (home / "state" / "labs" / "backups").iterdir()
    assert Classroom(kept).students == numbered([("ann", "Ann Li"), ("bob", "Bob Wu")])


def test_a_student_hands_in_from_another_computer(room: Classroom, home: Path, paictl: Paictl) -> None:
    file, secret = home / "report.html", home / "secret"
    file.write_text(report_of(home / "a", "Ann Li"), encoding="utf-8")
    word = next(
        line.split(",")[3] for line in (room.folder / "passwords.csv").read_text().splitlines() if "ann" in line
    )
    secret.write_text(f"{word}\n")
    to = ("--user", "ann", "--password-file", str(secret))
    with in_background(room.cluster, extension=extension_of(room)) as base:
        done = paictl("lab", "class", "hand-in", str(file), "--server", base, *to)
        assert (done.code, done.err) == (0, "handed in; labs: 1, checks passed: 0 of 5\n")
        file.write_text("hello")
        assert "contains no lab report" in paictl("lab", "class", "hand-in", str(file), "--server", base, *to).err
        secret.write_text("wrong-one")
        assert "does not let ann sign in" in paictl("lab", "class", "hand-in", str(file), "--server", base, *to).err
    gone = paictl("lab", "class", "hand-in", str(file), "--server", base, *to)
    assert (gone.code, "no answer" in gone.err) == (2, True)
    assert "needs your password" in paictl("lab", "class", "hand-in", str(file), "--server", base, "--user", "ann").err


def test_a_visit_needs_a_server_or_a_lab(home: Path, paictl: Paictl) -> None:
    (home / "job.yaml").write_text("name: x\n")
    (home / "secret").write_text("long-enough\n")
    words = ("lab", "visit", "ann", str(home / "job.yaml"), "--password-file", str(home / "secret"))
    assert "no server is named, and this shell is not a lab's" in paictl(*words).err
    assert "is not the address of a server" in paictl(*words, "--server", "ftp://x").err


@pytest.mark.parametrize(
    ("lab", "before", "again", "said"),
    [
        ("06", ("fill", "gang", "overtake"), "job submit job-6.yaml", "--name job-6b"),
        ("16", ("five", "service"), "job submit job-b.yaml --priority prod", "give the new one another"),
        ("06", ("fill",), "job submit job-5.yaml", "its step is done"),
    ],
)
def test_a_name_that_is_taken_leads_to_what_the_step_wants(
    home: Path,
    paictl: Paictl,
    monkeypatch: pytest.MonkeyPatch,
    lab: str,
    before: tuple[str, ...],
    again: str,
    said: str,
) -> None:
    session = Session(find_lab(lab), home / "state" / "labs")
    session.start()
    for step in before:
        session.play(session.lab.step(step), session.lab.step(step).solution, silent_runner(session))
    monkeypatch.setenv("PAICTL_STATE", str(session.workspace.folder))
    monkeypatch.chdir(session.workspace.files)
    assert said in paictl(*again.split()).err
