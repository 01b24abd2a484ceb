"""The report: complete in every form, and honest when somebody alters it."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from paictl.errors import PaictlError
from paictl.lab import commandlog
from paictl.lab.report.consistency import copies, inconsistencies, other_owner, owners_of, strange_owners
from paictl.lab.report.content import Author, Report, clock_of, digest_of, make_report
from paictl.lab.report.files import FORMS, check_file, check_form, rendered
from paictl.lab.report.markdown import markdown
from paictl.lab.report.page import page
from paictl.lab.report.phrases import finding_text, job_rows
from paictl.lab.report.timeline import drawn, lines_of, svg
from tests.unit.lab.conftest import Begin


@pytest.fixture
def report(begin: Begin) -> Report:
    session, runner = begin("03")
    for step in session.lab.steps[:4]:
        session.solve(step, runner)
    commandlog.append(session.workspace.folder, runner("paictl job submit job-1.yaml"))
    session.skip("end", "no | time <b>")
    session.answer(1, "quota of vc1 <script>alert(1)</script> `x` | y")
    begin("02")
    return make_report(session.root, Author("Li <Hua>"), "en")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_form_holds_everything_and_is_consistent(
    tmp_path: Path, report: Report, form: str, language: str
) -> None:
    report = {**report, "language": language}
    report["digest"] = digest_of(report)
    path = tmp_path / f"report{form}"
    path.write_text(rendered(report, form), encoding="utf-8")
    back, wrong = check_file(path)
    assert wrong == []
    assert back == json.loads(json.dumps(report))
    text = path.read_text(encoding="utf-8")
    assert report["digest"] in text
    translated = language == "zh" and form != ".json"
    assert ("被 ann~job-2 抢占" if translated else "preempted by ann~job-2") in text.replace("\\", "")
    if form == ".html":
        assert "<script>alert" not in text
        assert "<svg" in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    if form == ".md":
        assert "▒" in text


@pytest.mark.parametrize("form", [".md", ".html"])
def test_where_nothing_happened_there_is_no_empty_table(report: Report, form: str) -> None:
    untouched = [one for one in report["experiments"] if one["lab"] == "02_vc_safety"]
    alone = {**report, "experiments": untouched}
    assert "(nothing happened in the cluster)" in rendered(alone, form)
    assert "Detail" not in rendered(alone, form)


def test_what_is_as_expected_is_said_once_and_what_is_not_twice(report: Report) -> None:
    found = {"ok": True, "expected": "job a: state Running", "observed": "state Running"}
    assert finding_text(found, "en") == "as expected: job a: state Running"
    assert finding_text(found, "zh") == "与预期一致：job a: state Running"
    other = {"ok": False, "expected": "job a: state Running", "observed": "state Waiting"}
    assert finding_text(other, "en") == "expected: job a: state Running — observed: state Waiting"
    assert finding_text(other, "zh") == "应为：job a: state Running — 实际：state Waiting"
    page = rendered({**report, "language": "zh"}, ".html")
    assert not re.search(r"(通过|跳过|应为|实际|校验摘要)(</strong>)?: ", page), "colons are Chinese, too"


@pytest.mark.parametrize("form", FORMS)
def test_altering_the_text_is_found(tmp_path: Path, report: Report, form: str) -> None:
    text = rendered(report, form)
    path = tmp_path / f"report{form}"
    path.write_text(text.replace("preempted by ann", "preempted by bob", 1), encoding="utf-8")
    assert check_file(path)[1]


def test_altering_what_is_recorded_is_found_even_with_a_new_digest(report: Report) -> None:
    def altered(change: str) -> list[str]:
        forged = copy.deepcopy(report)
        experiment = forged["experiments"][1]
        if change == "event":
            experiment["events"][-1][1] += 1000
        elif change == "dropped":
            experiment["events"].pop()
        elif change == "command":
            experiment["log"] = experiment["log"][:-1]
        elif change == "nonsense":
            experiment["log"][3][1] = {"do": "nothing"}
        forged["digest"] = digest_of(forged)
        return list(inconsistencies(forged))

    assert altered("") == []
    assert "the report says otherwise" in altered("event")[0]
    assert "the commands make" in altered("dropped")[0]
    assert altered("command")
    assert "cannot be played" in altered("nonsense")[0]
    forged = copy.deepcopy(report)
    forged["experiments"][1]["checks"][0]["standing"] = "failed"
    assert "digest" in next(iter(inconsistencies(forged)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hello", "contains no lab report"),
        ("[1]", "contains no lab report"),
        ('{"experiments": [], "format": 9}', "report format 9"),
        ('{"experiments": [1], "format": 4}', "not a complete report"),
        ("# x\n<!-- paictl lab report: AAAA -->\n", "contains no lab report"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(PaictlError, match=said):
        check_file(path)
    with pytest.raises(PaictlError, match="cannot be read"):
        check_file(tmp_path / "nothing.md")


def test_a_form_that_is_not_known_is_refused() -> None:
    with pytest.raises(PaictlError, match=r"cannot be written as '\.pdf'"):
        check_form(Path("report.pdf"))


@pytest.mark.parametrize("form", [".md", ".html"])
def test_a_report_whose_name_lost_its_ending_can_be_checked(tmp_path: Path, report: Report, form: str) -> None:
    path = tmp_path / "attachment"
    path.write_text(rendered(report, form), encoding="utf-8")
    assert check_file(path)[1] == []


def test_without_labs_there_is_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(PaictlError, match="no lab has been started"):
        make_report(tmp_path, Author("Li"), "en")


def test_a_lab_over_weeks_is_consistent_and_says_the_days(begin: Begin, tmp_path: Path) -> None:
    session, runner = begin("30")
    for step in session.lab.steps:
        session.play(step, step.solution, runner)
    report = make_report(session.root, Author("Ann"), "en")
    path = tmp_path / "report.md"
    path.write_text(rendered(report, ".md"), encoding="utf-8")
    assert check_file(path)[1] == []  # its budget begins anew with the month
    rows = {row[0]: row for row in job_rows(report["experiments"][0])}
    assert rows["carol~owner"][3:6] == ("01-05 09:00:00", "01-05 09:00:00", "01-05 14:00:00")
    now = clock_of(report["experiments"][0])(report["experiments"][0]["now"])
    assert f"01-05 09:00:00{now:>46}" in path.read_text(encoding="utf-8")


def test_the_timeline_shows_waiting_running_and_loss(begin: Begin) -> None:
    session, runner = begin("03")
    for step in session.lab.steps:
        session.play(step, step.solution, runner)
    seen = session.observation()
    assert seen.cluster is not None
    lines = lines_of(seen.events, seen.now, seen.cluster.epoch)
    clock = clock_of({"beginning": "2026-01-05T09:00:00"})
    assert [line.name for line in lines] == ["job-1", "job-other", "job-2", "job-3"]
    assert [(bar.start, bar.end, bar.outcome) for bar in lines[0].bars] == [
        (0, 120_000, "preempted"),
        (120_000, 720_000, ""),
        (720_000, 1_020_000, "finished"),
    ]
    assert drawn(lines, 1_020_000, clock)[0].startswith("job-1     |▒▒▒▒▒▒▒···")
    assert svg(lines, 1_020_000, clock, str).count("<rect") == 7
    assert svg((), 1, clock, str) == ""
    assert drawn(lines, 0, clock) == []


# --- what a teacher sees of several reports


def named(report: Report, name: str) -> Report:
    other = {**copy.deepcopy(report), "name": name}
    return {**other, "digest": digest_of(other)}


def test_copies_of_one_run_are_found_under_whatever_name(report: Report) -> None:
    reports = [("a.html", report), ("b.md", named(report, "Bob")), ("c.json", named(report, "Eve"))]
    found = list(copies(reports))
    assert found == ["the same run in a.html (Li <Hua>), b.md (Bob), c.json (Eve): lab 03"]
    assert not list(copies(reports[:1]))
    other = named(report, "Ann")
    other["experiments"][1]["typed"][0]["at"] = "2026-01-01T00:00:00+00:00"
    assert not list(copies([("a.html", report), ("d.html", other)]))


def test_jobs_of_another_user_than_the_name_says_are_named(report: Report) -> None:
    assert owners_of(report) == ["ann"]
    assert other_owner(named(report, "Bob Miller")) == ["ann"]
    assert other_owner(named(report, "Ann Li")) == []
    assert other_owner(named(report, "Joanna")) == []
    assert other_owner(named(report, "李华")) == [], "letters cannot be compared"
    found = list(strange_owners([("a.html", named(report, "Ann")), ("b.html", named(report, "Bob"))]))
    assert found == ["the jobs of a.html (Ann), b.html (Bob) all belong to user ann"]


def test_a_message_that_is_worded_otherwise_is_no_contradiction(report: Report) -> None:
    later = copy.deepcopy(report)
    for event in later["experiments"][1]["events"]:
        event[4] = event[4].upper()
    later["digest"] = digest_of(later)
    assert list(inconsistencies(later)) == []
    later["experiments"][1]["events"][-1][5] = {"role": "other"}
    later["digest"] = digest_of(later)
    assert list(inconsistencies(later))


def test_what_is_nested_deeply_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    for content in ("[" * 100_000, '{"experiments": ' + "[" * 100_000 + "]" * 100_000 + "}"):
        path.write_text(content)
        with pytest.raises(PaictlError, match="contains no lab report"):
            check_file(path)


@pytest.mark.parametrize("form", [".md", ".html"])
def test_what_the_textbook_asks_for_and_how_much_help_it_took_are_in_it(begin: Begin, form: str) -> None:
    session, runner = begin("02")
    session.solve(session.lab.steps[0], runner)
    commandlog.append(session.workspace.folder, runner("paictl job list"))
    session.hint(session.lab.steps[1])
    session.reset_to(session.lab.steps[1])
    session.skip("overfill", "no time")
    author = Author("Ann", "Ann, Bob", "Docker was too old", "GPUs are expensive")
    text = rendered(make_report(session.root, author, "en"), form)
    for said in (
        "Ann, Bob",
        "Docker was too old",
        "GPUs are expensive",
        "1 solved by paictl",
        "1 skipped",
        "1 hint",
        "1 reset",
        "from step overfill",
    ):
        assert said in text, said
    assert re.search(r"\d\d:\d\d:\d\d (</span> )?paictl job submit job-2.yaml", text.replace("</span>", ""))


def test_a_run_that_took_no_time_is_a_mark_of_its_own(begin: Begin) -> None:
    session, runner = begin("02")
    for command in ("paictl job submit job-2.yaml", "paictl job stop job-2", "paictl cluster tick 5m"):
        commandlog.append(session.workspace.folder, runner(command))
    seen = session.observation()
    assert seen.cluster is not None
    lines = lines_of(seen.events, seen.now, seen.cluster.epoch)
    clock = clock_of({"beginning": "2026-01-05T09:00:00"})
    picture = svg(lines, 300_000, clock, str)
    assert picture.count("<polygon") == 1
    assert "<rect" not in picture
    assert drawn(lines, 300_000, clock)[0] == "job-2 |│" + " " * 59 + "|"


def test_the_textbooks_table_is_filled_from_the_cluster(begin: Begin) -> None:
    session, runner = begin("02")
    commandlog.append(session.workspace.folder, runner("paictl job submit job-2.yaml"))
    report = make_report(session.root, Author("Ann"), "en")
    hosts = {host["host"]: host for host in report["hosts"]}
    assert (hosts["worker2"]["address"], hosts["worker2"]["devices"]) == ("10.0.1.2", "1 × gpu-d-machine")
    assert report["environment"]["jobs"] == "1"
    written = markdown(report)
    assert "| worker2 | 10.0.1.2 | worker | 1 × gpu-d-machine | - | - | - | - |" in written
    started = "09:00:00"
    assert f"| ann~job-2 | vc1 | prod | {started} | {started} | - | worker2 | - |" in written
    assert "<td>worker2</td>" in page(report, "")


def test_the_table_of_jobs_tells_every_node_and_the_end(begin: Begin) -> None:
    session, runner = begin("04")
    for step in session.lab.steps:
        session.play(step, step.solution, runner)
    (experiment,) = make_report(session.root, Author("Ann"), "en")["experiments"]
    rows = {row[0].partition("~")[2]: row[1:] for row in job_rows(experiment)}
    assert rows["job-4"] == ("vc1", "oppo", "09:00:00", "09:00:00", "09:12:00", "worker1, worker2", "Succeeded")
