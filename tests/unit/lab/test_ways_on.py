"""What a student who went astray is told in the labs, and what counts as done though it is not the text's way."""

from __future__ import annotations

import re
from typing import Final

import pytest

from paictl.cli.lab.inprocess import speaking
from paictl.cli.lab.rendering import ways_on
from paictl.lab import commandlog
from paictl.lab.actions import Runner
from paictl.lab.commandlog import TypedCommand, means
from paictl.lab.findings import plain
from paictl.lab.judging import CheckResult, CheckStatus, judged
from paictl.lab.manifest import all_labs
from paictl.lab.session import Session
from paictl.lab.statements import refused
from tests.unit.lab.conftest import Begin

SUBMIT: Final = "paictl job submit"


def types(session: Session, runner: Runner, *commands: str) -> None:
    for command in commands:
        commandlog.append(session.workspace.folder, runner(command))
        session.observe()


def come_to(session: Session, runner: Runner, step: str) -> None:
    """Do all steps before one."""
    for before in session.lab.steps[: session.lab.step_ids.index(step)]:
        session.play(before, before.solution, runner)


def failed(session: Session, check: str) -> CheckResult:
    result = next(result for result in judged(session) if result.check.id == check)
    assert result.status is CheckStatus.FAILED
    return result


ASTRAY: list[tuple[str, str, list[str], str, tuple[str, ...]]] = [
    (
        "04",
        "borrow",
        [f"{SUBMIT} job-5.yaml"],
        "borrows",
        ("job-5 belongs to step 3", "paictl lab reset --step 2"),
    ),
    (
        "04",
        "owner",
        ["paictl cluster tick 2m", f"{SUBMIT} job-low.yaml", f"{SUBMIT} job-5.yaml", "paictl cluster tick 3m"],
        "on-own-quota",
        ("job-low belongs to step 5", "paictl lab reset --step 3"),
    ),
    (
        "04",
        "lowest",
        ["paictl cluster tick 5m", f"{SUBMIT} job-low.yaml"],
        "no-protection",
        ("job-4 had already ended when job-low came", "paictl lab reset --step 4"),
    ),
    ("05", "push", ["paictl config push -p cluster -y"], "pushed", ("You pushed the configuration as it was",)),
    ("06", "gang", [f"{SUBMIT} job-6.yaml --priority crit"], "none-starts", ("job-6 was submitted with --priority",)),
    ("06", "gang", [f"{SUBMIT} job-6.yaml --priority oppo"], "none-starts", ("job-6 was submitted with --priority",)),
    (
        "06",
        "overtake",
        [
            "paictl cluster tick 1",
            f"{SUBMIT} job-8.yaml",
            f"{SUBMIT} job-6.yaml --name job-6b",
            "paictl cluster tick 5m",
        ],
        "nobody-holds-half",
        ("Both GPUs were free at the same moment",),
    ),
    (
        "06",
        "overtake",
        ["paictl cluster tick 10m", f"{SUBMIT} job-8.yaml"],
        "overtaken",
        ("job-6 had already started when job-8 came",),
    ),
    (
        "06",
        "second",
        [f"{SUBMIT} job-6.yaml --name job-6b", "paictl cluster tick 5m"],
        "nobody-holds-half",
        ("a check of a later step has already passed", "paictl lab reset --step 4"),
    ),
    (
        "08",
        "ordinary",
        [f"{SUBMIT} job-a.yaml job-b.yaml --priority oppo"],
        "not-without-name",
        ("job-b was submitted with --priority",),
    ),
    (
        "08",
        "stranger",
        [f"{SUBMIT} job-other.yaml --vc vc1"],
        "not-for-strangers",
        ("job-other was submitted with --vc",),
    ),
    ("08", "owner", [f"{SUBMIT} job-claim.yaml"], "owner-gets-it", ("job-claim names the pinned cell, too",)),
    (
        "09",
        "choose",
        [f"{SUBMIT} job-m60.yaml", "paictl job show job-m60"],
        "chosen",
        ("Stop job-any: paictl job stop job-any",),
    ),
    (
        "09",
        "stranger",
        ["paictl cluster tick 10m", f"{SUBMIT} job-m60.yaml --vc default --name job-stranger --priority oppo"],
        "stranger-refused",
        ("only job-guest is opportunistic",),
    ),
    ("10", "pair", [f"{SUBMIT} job-pair.yaml --priority oppo"], "in-one-pair", ("job-pair was submitted with",)),
    (
        "12",
        "gang",
        ["paictl cluster tick 10m", f"{SUBMIT} owner.yaml --name owner-2"],
        "gang-falls",
        ("wide had already ended", "paictl lab reset --step 3"),
    ),
    (
        "12",
        "limit",
        [f"{SUBMIT} owner.yaml --name owner-3", f"{SUBMIT} owner.yaml --name owner-4 --priority prod"],
        "promise-holds",
        ("A higher class does not help owner-4",),
    ),
    (
        "13",
        "blink",
        ["paictl node fail worker1", "paictl cluster tick 10m"],
        "unnoticed",
        ("the jobs are lost already", "paictl lab reset --step 4"),
    ),
    ("13", "heal", ["paictl cluster tick 2h"], "served", ("early and late ended by themselves",)),
]
"""Lab, step, what is typed in it, a check that fails, and what leads on."""


@pytest.mark.parametrize(("lab", "step", "commands", "check", "told"), ASTRAY)
def test_who_goes_astray_is_told_why_and_how_to_go_on(
    begin: Begin, lab: str, step: str, commands: list[str], check: str, told: tuple[str, ...]
) -> None:
    session, runner = begin(lab)
    come_to(session, runner, step)
    types(session, runner, *commands)
    lines = ways_on(failed(session, check), session, "en")
    assert all(part in "\n".join(lines) for part in told), lines
    assert lines != ways_on(failed(session, check), session, "zh")


def test_going_back_to_before_an_early_job_leads_on(begin: Begin) -> None:
    session, runner = begin("04")
    come_to(session, runner, "owner")
    types(session, runner, f"{SUBMIT} job-low.yaml", *session.lab.step("owner").commands, "paictl cluster tick 3m")
    (job,) = failed(session, "on-own-quota").early
    assert (job.name, job.step, job.back) == ("job-low", 5, 3), "at the start of step 4 it was there already"
    session.reset_to(session.lab.steps[job.back - 1])
    types(session, runner, *session.lab.step("owner").commands, *session.lab.step("again").commands)
    assert "on-own-quota" in session.progress.passed


def test_a_step_whose_check_was_skipped_is_left_out_like_a_skipped_step(begin: Begin) -> None:
    session, runner = begin("04")
    come_to(session, runner, "lowest")
    session.skip("no-protection", "tired")
    types(session, runner, *session.lab.step("end").commands)
    result = failed(session, "done-late")
    assert result.left_out == ("lowest",)
    (line,) = ways_on(result, session, "en")
    assert "this check may need what the skipped lowest would have done" in line, "step 6 anew would not help"


def test_a_push_that_was_not_asked_about_lacks_no_yes(begin: Begin) -> None:
    session, runner = begin("05")
    come_to(session, runner, "push")
    types(session, runner, "paictl config push -p cluster")
    assert failed(session, "compared").slips.lacks == ()


def test_a_refusal_that_a_step_is_about_is_no_mistake_of_the_next(begin: Begin) -> None:
    session, runner = begin("10")
    come_to(session, runner, "split")
    types(session, runner, "paictl cluster tick 10m")
    assert failed(session, "two-pairs").never_came == ()
    types(session, runner, f"{SUBMIT} job-four.yaml", "paictl job list")
    assert failed(session, "two-pairs").never_came == (f"{SUBMIT} job-four.yaml",), "this one was meant to work"


def test_a_refused_submission_is_not_to_be_repeated_once_one_of_its_jobs_is_there(begin: Begin) -> None:
    session, runner = begin("05")
    types(session, runner, f"{SUBMIT} job-2.yaml job-5.yaml --vc nosuch", "paictl job list")
    assert failed(session, "both-run").never_came
    types(session, runner, f"{SUBMIT} job-2.yaml", "paictl job list")
    assert not failed(session, "both-run").never_came, "job-2 would be refused"


RIGHT: list[tuple[str, str, tuple[str, str], list[str], str]] = [
    ("05", "use", ("", ""), [f"{SUBMIT} job-8.yaml --vc vc1", f"{SUBMIT} job-8.yaml"], "in-force"),
    (
        "08",
        "stranger",
        ("", ""),
        [f"{SUBMIT} job-other.yaml job-claim.yaml --vc default", f"{SUBMIT} job-other.yaml"],
        "not-for-strangers",
    ),
    (
        "10",
        "split",
        ("gpu: 4", "gpu: 1"),
        ["paictl cluster tick 10m", f"{SUBMIT} job-four.yaml"],
        "two-pairs",
    ),
    ("12", "back", ("", ""), ["paictl cluster tick 20h"], "wide-returns"),
]
"""Lab, step, an edit of job-four.yaml, what is typed, and the check that passes by it."""


@pytest.mark.parametrize(("lab", "step", "edit", "commands", "check"), RIGHT)
def test_another_right_way_than_the_text_s_is_accepted(
    begin: Begin, lab: str, step: str, edit: tuple[str, str], commands: list[str], check: str
) -> None:
    session, runner = begin(lab)
    come_to(session, runner, step)
    if edit[0]:
        path = session.workspace.files / "job-four.yaml"
        path.write_text(path.read_text().replace(*edit).replace("instances: 1", "instances: 4"))
    assert check not in session.progress.passed
    types(session, runner, *commands)
    assert check in session.progress.passed, judged(session)


def make_a_gang(session: Session) -> None:
    """Have job-any start as a gang."""
    path = session.workspace.files / "job-any.yaml"
    path.write_text(path.read_text().replace("gangAllocation: false", "gangAllocation: true"))


def test_a_gang_that_another_virtual_cluster_refuses_says_nothing_about_vc1(begin: Begin) -> None:
    session, runner = begin("09")
    come_to(session, runner, "gang")
    make_a_gang(session)
    types(session, runner, f"{SUBMIT} job-any.yaml --name job-gang --vc default")
    assert "one-type-a-gang" not in session.progress.passed
    types(session, runner, f"{SUBMIT} job-any.yaml --name job-gang")
    assert "one-type-a-gang" in session.progress.passed


def test_a_machine_that_was_healed_at_once_was_not_away_for_four_minutes(begin: Begin) -> None:
    session, runner = begin("13")
    come_to(session, runner, "blink")
    types(session, runner, "paictl cluster tick 4m", "paictl node fail worker1", "paictl node heal worker1")
    assert "unnoticed" not in session.progress.passed
    event = failed(session, "unnoticed").findings[0]
    assert ("“back again”" in event.say("en")[0], "“已恢复”" in event.say("zh")[0]) == (True, True)
    types(session, runner, "paictl node fail worker1", "paictl cluster tick 4m", "paictl node heal worker1")
    assert "unnoticed" in session.progress.passed


def test_a_gang_without_a_guarantee_is_not_told_that_it_is_none(begin: Begin) -> None:
    session, runner = begin("09")
    come_to(session, runner, "gang")
    make_a_gang(session)
    types(session, runner, f"{SUBMIT} job-any.yaml --name job-gang --priority oppo")
    lines = "\n".join(ways_on(failed(session, "one-type-a-gang"), session, "en"))
    assert "the quota of vc1 does not limit it" in lines
    assert "gangAllocation" not in lines


REFUSED = [
    (lab.number, statement.says)
    for lab in all_labs()
    for check in lab.checks
    for statement in check.expect
    if statement.kind == "refused" and "zh" in statement.says
]


@pytest.mark.parametrize("number", sorted({number for number, _ in REFUSED}))
def test_a_refusal_is_expected_in_the_words_in_which_a_chinese_reader_gets_it(begin: Begin, number: str) -> None:
    session, runner = begin(number)
    typed: list[TypedCommand] = []
    with speaking("zh"):
        for step in session.lab.steps:
            typed += session.play(step, step.solution, runner)
    observation = session.observation()
    for says in (says for lab, says in REFUSED if lab == number):
        read = [command.said for command in typed if command.said and means(says["command"], command.line)]
        assert any(re.search(says["zh"], words) for words in read), (says, read)
        (finding,) = refused(observation, says)
        expected, _ = finding.say("zh")
        assert plain(says["zh"]) in expected
        assert plain(says["reason"]) not in expected
        assert plain(says["reason"]) in finding.say("en")[0]
