"""Slips that every lab tells: options left out or too many, numbers without a unit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from paictl.cli.lab.rendering import ways_on
from paictl.lab import commandlog
from paictl.lab.actions import Runner
from paictl.lab.commandlog import TypedCommand, lacking
from paictl.lab.judging import CheckResult, CheckStatus, judged
from paictl.lab.session import Session
from paictl.lab.slips import slips
from tests.unit.lab.conftest import Begin


def types(session: Session, runner: Runner, *commands: str) -> None:
    for command in commands:
        commandlog.append(session.workspace.folder, runner(command))
        session.observe()


def failed(session: Session, check: str) -> CheckResult:
    result = next(result for result in judged(session) if result.check.id == check)
    assert result.status is CheckStatus.FAILED
    return result


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("paictl sim compare a.csv --policy fifo --policy las --cluster 2x4 --jobs runs.csv", ()),
        ("paictl sim compare a.csv --jobs runs.csv --cluster=2x4 --policy las --policy fifo", ()),
        ("paictl sim compare a.csv --policy fifo --policy las --cluster 2x4", ("--jobs runs.csv",)),
        ("paictl sim compare a.csv --policy fifo --cluster 1x8 --jobs runs.csv", ("--cluster 2x4", "--policy las")),
        ("paictl sim compare b.csv --policy fifo", ()),
        ("paictl sim run a.csv --policy fifo", ()),
    ],
)
def test_what_a_command_lacks_is_its_options_where_it_is_about_the_same(line: str, missing: tuple[str, ...]) -> None:
    pattern = "paictl sim compare a.csv --policy fifo --policy las --cluster 2x4 --jobs runs.csv"
    assert lacking(pattern, line) == missing


def test_a_value_that_may_be_any_is_not_missing() -> None:
    pattern = "paictl sim run a.csv --policy las:* --cluster 2x4 --jobs tuned.csv"
    assert lacking(pattern, "paictl sim run a.csv --policy las:queues=9 --cluster 2x4") == ("--jobs tuned.csv",)


def test_who_forgets_the_file_is_not_told_what_the_old_one_shows(begin: Begin) -> None:
    session, runner = begin("18")
    played = "paictl sim run elastic.csv --policy optimus --cluster 2x4"
    types(session, runner, *session.lab.step("look").commands)
    session.predict(session.lab.step("elastic"), "tiny")
    types(session, runner, *session.lab.step("elastic").commands, f"{played} --jobs guarded.csv")
    assert any("tiny still takes 90 minutes" in line for line in ways_on(failed(session, "protected"), session, "en"))
    path = session.workspace.files / "elastic.csv"
    path.write_text(path.read_text().replace("tiny,0,2,3600,1-8", "tiny,0,2,3600,2-8"))
    types(session, runner, played)
    result = failed(session, "protected")
    assert ways_on(result, session, "en") == ["your last command lacks --jobs guarded.csv"]
    assert ways_on(result, session, "zh") == ["你的上一条命令少了 --jobs guarded.csv"]
    assert not result.stuck


def test_another_policy_leads_to_the_one_of_the_step(begin: Begin) -> None:
    session, runner = begin("19")
    types(session, runner, "paictl sim traces calm.csv")
    session.predict(session.lab.step("calm"), "all")
    types(session, runner, "paictl sim compare calm.csv --policy fifo --policy edf --cluster 1x8 --jobs calm-runs.csv")
    assert failed(session, "calm-runs").slips.lacks == ("--policy chronus",)


@pytest.mark.parametrize("code", [1, 141])
def test_a_command_that_answers_no_or_is_cut_by_a_pager_is_completed_as_well(begin: Begin, code: int) -> None:
    session, _ = begin("31")
    session.skip("scatter", "known")
    session.skip("gang", "known")
    session.predict(session.lab.step("plan"), "long-1")
    answered = TypedCommand("paictl cluster defrag plan --for 4xGPU-C-NODE", code)
    commandlog.append(session.workspace.folder, answered)
    assert failed(session, "planned").slips.lacks == ("--for 2xGPU-C-NODE",)


def test_a_refused_command_is_quoted_and_not_completed(begin: Begin) -> None:
    session, _ = begin("17")
    refused = TypedCommand("paictl sim traces heavy.csv", 2, "no such file")
    commandlog.append(session.workspace.folder, refused)
    assert failed(session, "looked").slips.lacks == ()


def test_seconds_instead_of_minutes_are_told_and_lead_back(begin: Begin) -> None:
    session, runner = begin("23")
    types(session, runner, "paictl job submit own.yaml lent.yaml", "paictl cluster tick 30")
    result = failed(session, "both-run")
    assert result.slips.in_seconds == ("30", "30m")
    (told,) = ways_on(result, session, "en")
    assert told.startswith(
        "paictl cluster tick 30 is 30 seconds; type paictl cluster tick 30m, and if the check still "
    )
    assert told.endswith("paictl lab reset --step 1")
    types(session, runner, "paictl cluster tick 30m")
    assert failed(session, "both-run").slips.in_seconds, "thirty minutes and thirty seconds are too long"
    session.reset_to(session.lab.step("work"))
    types(session, runner, *session.lab.step("work").commands)
    assert "both-run" in session.progress.passed


@pytest.mark.parametrize("option", ["--vc vc1", "--priority prod"])
def test_an_option_that_overrides_the_file_is_to_be_left_out(begin: Begin, option: str) -> None:
    session, runner = begin("25")
    types(session, runner, *session.lab.step("lend").commands)
    session.predict(session.lab.step("owner"), "lent-1")
    types(session, runner, f"paictl job submit owner.yaml {option}")
    lines = ways_on(failed(session, "least-loss"), session, "en")
    name = option.partition(" ")[0]
    assert f"owner was submitted with {name}, which overrides its file; restart this step " in lines[0]
    assert "--step 2" in lines[0]


def test_an_option_of_another_job_is_not_blamed(begin: Begin) -> None:
    session, _ = begin("25")
    check = next(check for check in session.lab.checks if check.id == "least-loss")
    job = SimpleNamespace(vc="vc1", priority="test")

    def overruled(*lines: str) -> tuple[str, str] | None:
        typed = [TypedCommand(line, 0) for line in lines]
        observation = cast("Any", SimpleNamespace(typed=typed, job=lambda _: job))
        return slips(observation, check, session.lab.step("owner"), 0).overruled

    assert overruled("paictl job submit other.yaml --vc vc1", "paictl job submit owner.yaml") is None
    assert overruled("paictl job submit owner.yaml --vc vc1") == ("owner", "--vc")


def test_a_mistake_is_told_before_its_step_was_shown(begin: Begin) -> None:
    """What a browser asks of the server is no command: without it nobody would know that the step has begun."""
    session, runner = begin("21")
    types(session, runner, *session.lab.step("users").commands)
    runner("paictl lab visit ann job-1.yaml --password-file ann.password")
    session.observe()
    runner("paictl lab visit bob job-2.yaml --password-file bob.password")
    session.observe()
    assert any("in the portal" in line for line in ways_on(failed(session, "by-rest"), session, "en"))


def test_a_job_that_is_sent_twice_needs_no_grant(begin: Begin) -> None:
    session, runner = begin("21")
    types(session, runner, *session.lab.step("users").commands)
    sent = "paictl lab visit ann job-1.yaml --by rest --password-file ann.password"
    assert runner(sent).exit == 0
    again = runner(sent)
    assert "status 409" in again.message
    assert again.hint == "give the job another name in its file, or restart the step: paictl lab reset --step N"
