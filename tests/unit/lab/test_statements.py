"""The vocabulary of checks: every kind of statement says yes and no, and tells what it saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from paictl.config.reading.schema import load_schema
from paictl.lab import commandlog, requests
from paictl.lab.actions import Runner
from paictl.lab.checks import KINDS, findings
from paictl.lab.findings import passed_finding, plain, span_text
from paictl.lab.manifest import Statement, all_labs
from paictl.lab.observation import Observation
from paictl.lab.session import Session
from paictl.operate.users.accounts import NewUser, add
from tests.unit.lab.conftest import Begin


def played(session: Session, runner: Runner) -> Observation:
    """Lab 03 after its second step (job-1 preempted by job-2), and a refusal."""
    for command in (
        "paictl job submit job-1.yaml job-other.yaml",
        "paictl cluster tick 2m",
        "paictl job submit job-2.yaml",
        "paictl job submit job-2.yaml",
        "paictl job explain job-1",
        "paictl node cordon worker1",
    ):
        commandlog.append(session.workspace.folder, runner(command))
    cluster = session.workspace.cluster()
    assert cluster is not None
    add(cluster.users, NewUser("carol", "correct horse", vcs=["vc1"]))
    for line, status in (("GET /", 200), ("POST /api/v2/jobs", 403)):
        requests.append(session.workspace.folder, requests.AskedRequest("carol", line, status))
    with session.file.changing() as progress:
        progress.lab(session.lab.id).predictions["told"] = "it waits"
    (session.workspace.files / "runs.csv").write_text(RUNS)
    (session.workspace.files / "master.csv").write_text('# ours\n\n"a", 10.0.0.1\n')
    (session.workspace.files / "worker.csv").write_text("a,10.0.0.1\nb,10.0.0.2\n")
    (session.workspace.files / "config.yaml").write_text('"user": me\npassword:\n')
    return session.observation()


RUNS = """run,id,jct,preemptions
fifo,short-1,60,0
fifo,long-1,10800,0
"las:knob=1,promote=reset",short-1,600,1
"las:knob=1,promote=reset",long-1,1200,2
"las:knob=2,promote=reset",long-1,1,1
"""


YES_AND_NO: list[tuple[str, Any, Any, str]] = [
    ("job", {"name": "job-1", "state": "Waiting"}, {"name": "job-1", "state": ["Running", "Failed"]}, "Waiting"),
    ("job", {"name": "job-1", "vc": "vc1"}, {"name": "job-1", "vc": "default"}, "vc1"),
    ("job", {"name": "job-1", "priority": "test"}, {"name": "job-1", "priority": "prod"}, "test"),
    ("job", {"name": "job-1", "devices": 1}, {"name": "job-1", "devices": 2}, "1"),
    ("job", {"name": "job-1", "preemptions": {"at-least": 1}}, {"name": "job-1", "preemptions": {"at-most": 0}}, "1"),
    ("job", {"name": "job-1", "attempt": 2}, {"name": "job-1", "attempt": 1}, "2"),
    ("job", {"name": "job-2", "running": 1}, {"name": "job-1", "running": 1}, "0"),
    ("job", {"name": "job-2", "ran": "0s"}, {"name": "job-2", "ran": {"at-least": "3m"}}, "0s"),
    ("job", {"name": "job-2", "waited": "0s"}, {"name": "job-2", "waited": {"at-least": "1s"}}, "0s"),
    ("job", {"name": "job-9", "absent": True}, {"name": "job-1", "absent": True}, "exists"),
    ("job", {"name": "job-1", "absent": False}, {"name": "job-9", "absent": False}, "no such job"),
    ("job", {"name": "job-1", "reason": "^$"}, {"name": "job-1", "reason": "lazily"}, "nothing"),
    ("job", {"name": "job-1"}, {"name": "job-9", "state": "Running"}, "no such job"),
    ("placement", {"job": "job-2", "nodes": "worker2"}, {"job": "job-2", "nodes": ["worker1"]}, "worker2"),
    ("placement", {"job": "job-2", "devices": [0]}, {"job": "job-2", "devices": [1]}, "0"),
    ("placement", {"job": "job-2", "within": 1}, {"job": "job-9", "within": 1}, "nothing"),
    ("placement", {"job": "job-2", "apart-from": "job-other"}, {"job": "job-2", "apart-from": "job-2"}, "worker2"),
    ("placement", {"job": "job-2", "apart-from": "job-other"}, {"job": "job-2", "apart-from": "job-9"}, "not both"),
    ("placement", {"job": "job-2", "same-node-as": "job-2"}, {"job": "job-2", "same-node-as": "job-other"}, "worker2"),
    ("placement", {"job": "job-2", "node-count": 1}, {"job": "job-9", "node-count": 1}, "0"),
    (
        "events",
        [
            {"what": "Preempted", "job": "job-1", "task": "train[0]"},
            {"what": "Started", "job": "job-2", "on": "worker2"},
        ],
        [{"what": "Started", "job": "job-2"}, {"what": "Preempted", "job": "job-1"}],
        "only Started job job-2",
    ),
    (
        "events",
        [{"what": "Started", "job": "job-1"}, {"what": "Preempted", "job": "job-1", "later": "2m"}],
        [{"what": "Started", "job": "job-1"}, {"what": "Preempted", "job": "job-1", "later": "121s"}],
        "only Started job job-1",
    ),
    (
        "events",
        [{"what": "Cordoned", "node": "worker1"}],
        [{"what": "Failed", "node": "worker1"}],
        "none of these has happened",
    ),
    ("placement", {"job": "job-2", "nodes": "worker2"}, {"job": "job-9", "nodes": "worker2"}, "does not run on any"),
    (
        "events",
        [{"what": "Started", "service": "hivedscheduler"}],
        [{"what": "Preempted", "job": "job-1", "detail": "job-3"}],
        "none of these has happened",
    ),
    ("never", {"what": "Preempted", "job": "job-2"}, {"what": "Preempted", "job": "job-1"}, "1"),
    (
        "count",
        {"event": {"what": "Started", "job": "job-1"}, "times": 1},
        {"event": {"what": "Started", "job": "job-1"}, "times": 2},
        "1",
    ),
    ("together", {"jobs": ["job-1", "job-other"], "ever": True}, {"jobs": ["job-1", "job-2"], "ever": True}, "no"),
    ("together", {"jobs": ["job-1", "job-2"], "ever": False}, {"jobs": ["job-1", "job-9"], "ever": False}, "not both"),
    (
        "explain",
        {"job": "job-1", "decision": "wait", "text": "In the way", "change": "priority"},
        {"job": "job-2", "decision": "wait"},
        "Running",
    ),
    ("explain", {"job": "job-1"}, {"job": "job-1", "change": "quota everywhere"}, "priority"),
    (
        "explain",
        {"job": "job-1", "text": "In the way", "zh": "占用者"},
        {"job": "job-1", "text": "In the way", "zh": "没有这样的话"},
        "In the way",
    ),
    (
        "service",
        {"name": "hivedscheduler", "running": True, "ready": True, "loaded": "newest"},
        {"name": "hivedscheduler", "running": False},
        "yes",
    ),
    ("service", {"name": "grafana", "loaded": 1}, {"name": "nothing-such", "running": True}, "nothing"),
    ("service", {"name": "grafana", "reason": "^$"}, {"name": "grafana", "reason": "restart"}, "nothing"),
    ("configuration", {"version": 1, "text": "GPU-C-NODE-POOL"}, {"text": "DGX2"}, "does not hold it"),
    ("configuration", {"no-text": "DGX2"}, {"no-text": "GPU-C-NODE-POOL"}, "holds it"),
    ("configuration", {"file": "layout.yaml", "text": "worker2"}, {"version": {"at-least": 2}}, "1"),
    ("promise", {"vc": "vc1", "devices": 1}, {"vc": "vc1", "devices": 2}, "1"),
    ("promise", {"vc": "vc1", "apart-from": "default"}, {"vc": "vc1", "shares-with": "default"}, "nothing"),
    ("placement", {"job": "job-2", "promised-to": "vc1"}, {"job": "job-2", "promised-to": "vc9"}, "worker2"),
    (
        "file",
        {"name": "master.csv", "hosts": {"a": "10.0.0.1"}},
        {"name": "master.csv", "hosts": {"b": "10.0.0.1"}},
        "not hold",
    ),
    (
        "file",
        {"name": "worker.csv", "hosts": {"a": "10.0.0.1", "b": "10.0.0.2"}},
        {"name": "worker.csv", "hosts": {"a": "10.0.0.1"}},
        "holds it",
    ),
    ("file", {"name": "config.yaml", "key": "user"}, {"name": "config.yaml", "key": "password"}, "not hold"),
    ("promise", {"vc": "vc9", "absent": True}, {"vc": "vc9", "devices": 1}, "no such virtual cluster"),
    ("node", {"name": "worker1", "condition": "Cordoned", "used": 1}, {"name": "worker1", "used": 0}, "1"),
    ("node", {"name": "worker9", "absent": True}, {"name": "worker9", "used": 0}, "no such node"),
    ("node", {"name": "worker2", "bad": []}, {"name": "worker2", "bad": [0]}, "nothing"),
    ("job", {"name": "job-1", "user": "ann"}, {"name": "job-1", "user": "bob"}, "ann"),
    ("usage", {"vc": "vc1", "guaranteed": "2m", "lost": "2m"}, {"vc": "vc1", "opportunistic": "1m"}, "0s"),
    ("usage", {"vc": "default", "idle": "0s"}, {"vc": "default", "idle": {"at-least": "1m"}}, "0s"),
    ("user", {"name": "carol", "vcs": ["vc1"]}, {"name": "carol", "vcs": ["default"]}, "vc1"),
    ("user", {"name": "dan", "absent": True}, {"name": "dan", "vcs": ["vc1"]}, "no such account"),
    (
        "asked",
        {"user": "carol", "request": "POST /api/*", "status": 403},
        {"user": "carol", "request": "POST /api/v2/jobs"},
        "403",
    ),
    ("asked", {"user": "carol", "request": "GET /"}, {"user": "dan", "request": "GET /"}, "was not asked"),
    (
        "asked",
        {"user": "carol", "request": "POST *", "status": 202, "absent": True},
        {"user": "carol", "request": "POST *", "status": 403, "absent": True},
        "was requested",
    ),
    (
        "cluster",
        {"nodes": 3, "devices": 2, "used": 2, "jobs": 3, "time": "2m", "name": "lab03"},
        {"time": {"at-least": "3m"}},
        "2m",
    ),
    ("typed", {"command": "paictl job explain *"}, {"command": "paictl job logs *"}, "not typed yet"),
    (
        "typed",
        {"command": "paictl job submit job-2.yaml", "exit": 2},
        {"command": "paictl job explain *", "exit": 1},
        "0",
    ),
    (
        "refused",
        {"command": "paictl job submit *", "reason": "already exists", "zh": "已经有"},
        {"command": "paictl job submit *", "reason": "can never run"},
        "already exists",
    ),
    (
        "refused",
        {"command": "paictl job submit job-2.yaml", "reason": "another name"},
        {"command": "paictl job explain *", "reason": "x"},
        "not refused yet",
    ),
    ("file", {"name": "job-1.yaml"}, {"name": "hosts.csv"}, "no such file"),
    (
        "file",
        {"name": "job-1.yaml", "text": "^name: job-1$"},
        {"name": "job-1.yaml", "text": "^nothing"},
        "does not hold it",
    ),
    ("file", {"name": "job-1.yaml", "no-text": "^nothing"}, {"name": "job-1.yaml", "no-text": "^name"}, "holds it"),
    ("predicted", {"step": "told"}, {"step": "other"}, "not made yet"),
    ("predicted", {"step": "other", "absent": True}, {"step": "told", "absent": True}, "made"),
    (
        "figures",
        {"file": "runs.csv", "run": "las*", "column": "jct", "is": "15m"},
        {"file": "runs.csv", "run": "las*", "column": "jct", "is": {"at-most": "899s"}},
        "las*: jct (mean) 15m",
    ),
    (
        "figures",
        {"file": "runs.csv", "run": "fifo", "job": "long-*", "column": "jct", "of": "most", "is": 10800},
        {"file": "runs.csv", "run": "fifo", "column": "jct", "of": "least", "is": {"at-least": "2m"}},
        "jct (smallest) 1m",
    ),
    (
        "figures",
        {"file": "runs.csv", "column": "preemptions", "of": "sum", "is": {"at-most": 0}},
        {"file": "runs.csv", "run": "las*", "column": "preemptions", "of": "sum", "is": 2},
        "preemptions (sum) 3",
    ),
    (
        "figures",
        {"file": "runs.csv", "run": "las*", "column": "jct", "below": "fifo"},
        {"file": "runs.csv", "run": "las*", "column": "jct", "above": "fifo"},
        "las*: jct (mean) 15m",
    ),
    ("figures", {"file": "runs.csv", "run": "fifo", "is": 2}, {"file": "runs.csv", "run": "srtf", "is": 2}, "jobs 0"),
    (
        "figures",
        {"file": "runs.csv", "run": "srtf", "is": 0},
        {"file": "runs.csv", "run": "srtf", "column": "jct", "is": {"at-most": 9}},
        "nothing",
    ),
    (
        "figures",
        {"file": "runs.csv", "run": "fifo", "is": 2},
        {"file": "runs.csv", "run": "fifo", "column": "jct", "below": "srtf"},
        "90m30s",
    ),
    ("figures", {"file": "runs.csv", "run": "fifo", "is": 2}, {"file": "none.csv", "is": 2}, "no such file"),
    ("figures", {"file": "runs.csv", "is": 2}, {"file": "job-1.yaml", "column": "jct", "is": 2}, "nothing"),
]


def test_every_kind_of_statement_says_yes_and_no_and_what_it_saw(begin: Begin) -> None:
    seen_now = played(*begin("03"))
    for kind, yes, no, seen in YES_AND_NO:
        found = list(findings(seen_now, [Statement(kind, yes)]))
        assert all(one.ok for one in found), (kind, yes, found)
        assert found or yes == {"name": "job-1"} or kind == "explain"
        failed = [one for one in findings(seen_now, [Statement(kind, no)]) if not one.ok]
        assert failed, (kind, no)
        assert seen in failed[0].observed.text("en"), (kind, no, failed)


def test_the_schema_and_the_judge_know_the_same_words() -> None:
    schema = load_schema("lab")
    items = schema["definitions"]["statements"]["items"]["properties"]
    assert set(items) == set(KINDS) == {kind for kind, *_ in YES_AND_NO}
    for kind, properties in items.items():
        used = {
            key
            for name, yes, no, _ in YES_AND_NO
            if name == kind
            for says in (yes, no)
            for one in (says if isinstance(says, list) else [says])
            for key in one
        }
        declared = properties.get("properties") or schema["definitions"]["event"]["properties"]
        assert set(declared) - used <= (
            {"node", "service", "on", "task", "detail", "later"} if kind == "never" else set()
        ), kind


@pytest.mark.parametrize("language", ["en", "zh"])
def test_findings_are_said_in_both_languages(begin: Begin, language: str) -> None:
    seen_now = played(*begin("03"))
    for kind, _, no, _ in YES_AND_NO:
        for one in findings(seen_now, [Statement(kind, no)]):
            expected, observed = one.say(language)
            assert expected.strip()
            assert observed.strip()
            if language == "zh" and kind not in ("typed", "refused"):  # these hold command lines
                assert not any(word in f" {expected} {observed} " for word in (" job ", " at least ", " nothing "))


def test_a_refusal_is_repeated_as_the_student_read_it(begin: Begin) -> None:
    session, _ = begin("03")
    refusal = commandlog.TypedCommand("paictl job submit job-1.yaml", 2, "no room", "wait", said="没有空间；请等待")
    commandlog.append(session.workspace.folder, refusal)
    says = Statement("refused", {"command": "paictl job submit *", "reason": "no place"})
    (one,) = findings(session.observation(), [says])
    assert not one.ok
    assert (one.say("en")[1], one.say("zh")[1]) == ("was refused “no room; wait”", "被拒绝，理由 “没有空间；请等待”")


@pytest.mark.parametrize(
    ("hours", "told"), [(1.9, "114m"), (2, "2h00m"), (47.5, "47h30m"), (48, "2d"), (51, "2d03h"), (624, "26d")]
)
def test_long_spans_are_told_in_days(hours: float, told: str) -> None:
    assert span_text(round(hours * 3_600_000)) == told


def test_figures_are_told_in_the_language_of_the_student(begin: Begin) -> None:
    session, _ = begin("17")
    (session.workspace.files / "tuned.csv").write_text("id,preemptions\na,3\nb,2\n")
    says = {"file": "tuned.csv", "is": 16}
    rows = [Statement("figures", says), Statement("figures", says | {"column": "preemptions", "of": "sum", "is": 0})]
    told = [finding.say("zh") for finding in findings(session.observation(), rows)]
    assert told == [
        ("文件 tuned.csv：作业数 16", "作业数 2"),
        ("文件 tuned.csv：preemptions（合计） 0", "preemptions（合计） 5"),
    ]


def test_no_student_reads_a_regular_expression() -> None:
    assert plain(r"^docker_image_tag:") == "docker_image_tag:"
    assert plain(r"master1,10\.0\.0\.1$") == "master1,10.0.0.1"
    assert plain("rest-server.*is stopped") == "rest-server … is stopped"
    for lab in all_labs():
        stated = [*(one for check in lab.checks for one in check.expect)]
        for statement in stated:
            for words in _patterns(statement.says):
                assert not set("^$[]|\\?+*{}") & set(plain(words)), f"{lab.id}: {words!r} has no plain reading"


def _patterns(says: Any) -> Iterator[str]:
    rows = says if isinstance(says, list) else [says]
    for row in rows:
        row = row.get("event", row)
        yield from (row[key] for key in ("text", "no-text", "reason", "detail") if key in row)


@pytest.mark.parametrize(
    ("codes", "is_typed"),
    [([141], True), ([-13], True), ([130], False), ([2], False), ([2, 141], True), ([130, 0], True)],
)
def test_a_pipe_or_pager_does_not_undo_a_command_and_ctrl_c_is_no_refusal(
    begin: Begin, codes: list[int], is_typed: bool
) -> None:
    session, _ = begin("03")
    for code in codes:
        commandlog.append(session.workspace.folder, commandlog.TypedCommand("paictl job list", code))
    (said,) = findings(session.observation(), [Statement("typed", {"command": "paictl job list"})])
    assert said.ok is is_typed
    assert (session.last_refusal() is None) is (codes[-1] != 2)


def test_what_a_job_is_told_is_shown_to_each_reader_in_his_own_words(begin: Begin) -> None:
    seen = played(*begin("03"))
    says = {"job": "job-1", "text": "In the way", "zh": "占用者"}
    (english, english_seen), (chinese, chinese_seen) = (
        one.say(language) for language in ("en", "zh") for one in findings(seen, [Statement("explain", says)])
    )
    assert "“In the way”" in english
    assert "In the way: " in english_seen
    assert "“占用者”" in chinese
    assert "占用者：" in chinese_seen
    stored = passed_finding(next(iter(findings(seen, [Statement("explain", says)]))).row())
    assert stored.say("zh") == (chinese, chinese_seen), "the progress keeps both languages"
