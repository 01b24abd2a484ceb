"""`paictl lab class`: a class at one server, for its teacher; `hand-in` is its students'."""

from __future__ import annotations

import fcntl
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cli.lab.classpages import extension_of, standing_data
from paictl.cli.lab.language import speaks
from paictl.cli.options import OutputOption, address
from paictl.cli.settings import settings
from paictl.config.reading.source import read_bytes
from paictl.errors import ExitCode
from paictl.lab.classroom import LAB, PASSWORDS, TEACHER, Classroom, Standing, Student, numbered, students_from
from paictl.lab.folders import Backups, labs_folder
from paictl.lab.manifest import find_lab
from paictl.lab.messages import LabError, say, writing
from paictl.lab.report.consistency import copies
from paictl.lab.report.files import check_file
from paictl.lab.visitor import Visitor
from paictl.server.serving import ServerSettings, check, log_to_stderr, networks_of
from paictl.server.serving import serve as answer

EXAMPLES = """
    paictl lab class start --students 30
    paictl lab class status
    paictl lab class collect -o reports
"""
NAME = "class"

app = App(help="Run a class: one server for a teacher and students, their progress, reports.", epilog=EXAMPLES)


def _room() -> Classroom:
    return Classroom(labs_folder() / NAME)


@app.command(
    epilog="""
    paictl lab class start --students 30
    paictl lab class start --students class.csv --listen 0.0.0.0:9186 --tls-cert server.crt --tls-key server.key
    """
)
def start(
    *,
    students: Annotated[
        str | None,
        typer.Option("--students", metavar="N|FILE", help="How many, or a file with lines of user,full name."),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "127.0.0.1:9186",
    speed: Annotated[
        str | None, typer.Option("--speed", help="How fast the cluster's clock runs: 1 (default), 60, 0, max.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM) to answer with HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    behind_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A trusted proxy, whose X-Forwarded-… headers are used; also a network."),
    ] = None,
) -> None:
    """Start or resume a class: a cluster with a virtual cluster for each student, and its server, until Ctrl-C.

    Every student gets an account; the passwords are in a file that only you can read. The portal's page Class shows the
    teacher everyone's progress, and each student what there is to do.
    """

    words, room = speaks(), _room()
    host, port = address(listen)
    chosen = ServerSettings(host, port, tls_cert, tls_key, networks_of(behind_proxy or ()))
    check(chosen)
    with _alone(room):
        if not room.begun:
            wanted = _students(students)
            with console.progress(say("class-making", words)):
                room.start(wanted, speed)
        elif students is not None and _students(students) != room.students:
            raise LabError("class-begun", number=len(room.students))
        log_to_stderr(logging.WARNING)

        def ready(where: str) -> None:
            console.info(say("class-served", words, where=where, number=len(room.students)))
            console.info(say("class-passwords", words, file=room.folder / PASSWORDS, teacher=TEACHER))

        answer(chosen, room.cluster, ready=ready, extension=extension_of(room))


def _students(word: str | None) -> list[Student]:
    """The students that an option means. Raises `LabError`."""
    if word is None:
        raise LabError("class-whom")
    if word.isdecimal():
        number = int(word[:9])
        width = max(2, len(str(number)))
        return numbered([(f"s{index:0{width}}", "") for index in range(1, min(number, 1000) + 1)])
    return students_from(read_bytes(word).decode("utf-8-sig", errors="replace"))


@contextmanager
def _alone(room: Classroom) -> Iterator[None]:
    """Raise `LabError` while another process serves the class."""
    path = room.folder.with_name(f"{NAME}.lock")
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = path.open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError("class-served") from None
        yield


@app.command(epilog="paictl lab class status -o json")
def status(output: OutputOption = Output.TABLE) -> None:
    """Show every student's progress; the server may be running."""

    words, room = speaks(), _room()
    room.require_begun()
    lab = find_lab(LAB)
    standings = room.standings(lab, room.cluster())
    if output is not Output.TABLE:
        write_data([standing_data(standing) for standing in standings], output)
        return
    heads = (
        say("class-user", words),
        say("class-name", words),
        *(task.id.upper() for task in lab.in_class),
        say("class-report", words),
    )
    write_table(heads, [_row(standing, words) for standing in standings])
    complete = sum(standing.complete for standing in standings)
    console.info(say("class-tally", words, complete=complete, number=len(standings)))


def _row(standing: Standing, words: str) -> tuple[str, ...]:
    report = standing.report
    claims = (
        "-" if report is None else say("class-claims", words, labs=report.labs, passed=report.passed, of=report.checks)
    )
    signs = ("✓" if done else "·" for done in standing.done.values())
    return (standing.student.user, standing.student.name or "-", *signs, claims)


@app.command(epilog="paictl lab class collect -o reports")
def collect(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the reports.")],
) -> None:
    """Write the reports that were handed in to a folder, and check that they are consistent and not copied.

    The exit code is 1 if one is not.
    """

    words, room = speaks(), _room()
    room.require_begun()
    read, bad = [], False
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    for student, path in room.report_files():
        with writing(output):
            shutil.copyfile(path, output / path.name)
        report, wrong = check_file(output / path.name)
        read.append((path.name, report))
        verdict = say("class-inconsistent" if wrong else "class-consistent", words)
        write(f"{path.name}: {verdict}; {student.name or student.user}, {report['name']}")
        for problem in wrong:
            write(f"  {problem}")
        bad = bad or bool(wrong)
    for copy in copies(read):
        write(copy)
        bad = True
    missing = [student.user for student in room.students if room.report_of(student.user) is None]
    console.info(say("class-collected", words, number=len(read), folder=output))
    if missing:
        console.info(say("class-missing", words, users=", ".join(missing)))
    raise typer.Exit(ExitCode.NEGATIVE if bad else ExitCode.OK)


@app.command(epilog="paictl lab class stop")
def stop(yes: Yes = False) -> None:
    """End the class: its cluster, accounts and reports are archived, and a new one can start."""
    words, room = speaks(), _room()
    room.require_begun()
    with _alone(room):
        confirm(say("class-stop-asks", words, number=len(room.students)), NAME, yes=yes)
        kept = Backups(labs_folder(), NAME).make(lambda folder: _moved(room, folder))
    console.info(say("class-stopped", words, folder=kept))


def _moved(room: Classroom, folder: Path) -> None:
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        room.folder.rename(folder)


@app.command("hand-in", epilog="paictl lab class hand-in report.html --server https://teacher:9186 --user s07")
def hand_in(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="File that paictl lab report has written.")],
    *,
    server: Annotated[str, typer.Option("--server", metavar="URL", help="Address of the class.")],
    user: Annotated[str, typer.Option("--user", help="Your user name there.")],
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="File with your password; without it, you are asked."),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="Certificate that signed the server's.")
    ] = None,
) -> None:
    """Hand in your report to the teacher's server; it replaces one that you handed in before."""
    words = speaks()
    written = read_bytes(str(report)).decode("utf-8", errors="replace")
    visitor = Visitor(server, user, _password(user, password_file, words), str(ca or ""), words)
    visitor.ask_for_token()
    reply = visitor.rest("PUT", "/class/report", written, "text/plain")
    if reply.status != 201:
        raise LabError("not-handed-in", status=reply.status, reason=reply.data.get("message", "-"))
    console.outcome(
        say("handed-in", words, **{key: reply.data[key] for key in ("labs", "passed", "checks")}), **reply.data
    )


def _password(user: str, file: Path | None, words: str) -> str:
    if file is not None:
        return read_bytes(str(file)).decode("utf-8", errors="replace").strip()

    if not settings.may_ask:
        raise LabError("needs-password")
    return str(typer.prompt(say("class-password", words, user=user), hide_input=True, err=True))
