"""A student in a lab: usual mistakes lead on, nothing is ever stuck."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paictl.cli.lab.rendering import ways_on
from paictl.errors import PaictlError
from paictl.lab import commandlog
from paictl.lab.actions import Runner
from paictl.lab.judging import CheckStatus, judged
from paictl.lab.manifest import Act, all_labs, find_lab, read_lab
from paictl.lab.messages import LabError
from paictl.lab.progress import ProgressFile
from paictl.lab.session import Session
from paictl.lab.workspace import STEPS
from tests.conftest import ROOT
from tests.unit.lab.conftest import Begin


def types(session: Session, runner: Runner, *commands: str) -> None:
    for command in commands:
        commandlog.append(session.workspace.folder, runner(command))
        session.observe()


def standing(session: Session) -> dict[str, CheckStatus]:
    return {one.check.id: one.status for one in judged(session)}


def test_what_was_seen_for_a_moment_stays_passed_with_what_was_found_then(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-2.yaml", "paictl job submit job-3.yaml")
    types(session, runner, "paictl cluster tick 10m")
    second = next(one for one in judged(session) if one.check.id == "second-waits")
    assert second.status is CheckStatus.PASSED
    assert any(finding.observed.text("en") == "Waiting" for finding in second.findings)


def test_copies_of_a_lab_at_the_same_moment_are_whole(begin: Begin) -> None:
    """The server of a lab judges in a thread of its own what it was asked, beside the command that asked."""
    session, _ = begin("02")
    target = session.workspace.folder / STEPS / "end"

    def copy(number: int) -> None:
        session.workspace.copy_to(target, {"number": str(number)})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(copy, range(40)))
    assert (target / "number").is_file()
    assert [path.name for path in target.parent.iterdir() if path.name.startswith("end")] == ["end"]


def test_the_wrong_vc_is_recognised_and_leads_on(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-2.yaml", "paictl job submit job-3.yaml --vc default")
    second = next(one for one in judged(session) if one.check.id == "second-waits")
    assert second.status is CheckStatus.FAILED
    assert any("leave --vc out" in advice.en for advice in second.advice)


def test_a_mistake_that_leaves_no_trace_is_a_guess_once_its_commands_were_typed(begin: Begin) -> None:
    session, runner = begin("02")
    assert not any(one.guesses for one in judged(session))
    for step in session.lab.steps[:3]:
        session.play(step, step.solution, runner)
    session.show(session.lab.step("release"))
    types(session, runner, "paictl job list")
    late = next(one for one in judged(session) if one.check.id == "then-runs")
    assert late.advice == ()
    assert any("No time has passed" in guess.en for guess in late.guesses)


def test_a_step_that_was_neither_shown_nor_tried_has_not_failed(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-2.yaml", "paictl job list")
    assert standing(session)["second-waits"] is CheckStatus.LATER
    types(session, runner, "paictl job submit job-3.yaml --vc default")
    assert standing(session)["second-waits"] is CheckStatus.FAILED


def test_a_step_that_was_left_behind_has_failed(begin: Begin) -> None:
    session, runner = begin("13")
    for command in ("paictl job submit early.yaml late.yaml", "paictl node fail worker1", "paictl cluster tick 6m"):
        commandlog.append(session.workspace.folder, runner(command))
        session.settle()
    after = standing(session)
    assert (after["early-runs"], after["lost"]) == (CheckStatus.PASSED, CheckStatus.PASSED)
    assert after["goes-on"] is CheckStatus.FAILED


@pytest.mark.parametrize(
    ("number", "submits", "first"),
    [("04", "job-2.yaml job-4.yaml", "quota-used"), ("07", "job-5.yaml job-7.yaml", "one-used")],
)
def test_the_jobs_of_two_steps_may_come_at_once(begin: Begin, number: str, submits: str, first: str) -> None:
    session, runner = begin(number)
    types(session, runner, f"paictl job submit {submits}")
    assert standing(session)[first] is CheckStatus.PASSED


def test_help_is_for_the_step_that_is_read_though_its_checks_have_passed(begin: Begin) -> None:
    session, runner = begin("02")
    step = session.lab.step("overfill")
    types(session, runner, "paictl job submit job-2.yaml", "paictl job list")
    session.show(step)
    types(session, runner, "paictl job submit job-3.yaml")
    assert standing(session)["second-waits"] is CheckStatus.PASSED
    assert session.reading() == step
    assert session.missing(step) == list(step.commands[1:]), "what was typed before it was shown does not count"
    ended = session.solve(step, runner)
    assert [typed.line for typed in ended] == list(step.commands[1:])
    reading = session.reading()
    assert reading is not None
    assert reading.id == "owner"


def test_a_step_whose_solution_is_refused_is_not_solved(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-2.yaml --vc default")
    step = session.lab.step("fill")
    session.solve(step, runner)
    assert session.progress.solved == []
    assert session.current_step() == step


def test_nothing_left_to_type_and_no_known_mistake_leads_to_reset(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-2.yaml", "paictl job stop job-2", "paictl cluster tick 1h")
    session.show(session.lab.step("overfill"))
    assert not any(one.stuck for one in judged(session))
    types(session, runner, *session.lab.step("overfill").commands)
    failed = next(one for one in judged(session) if one.check.id == "second-waits")
    assert failed.status is CheckStatus.FAILED
    assert failed.stopped == ("job-2",)  # which leads to the step's beginning as well
    assert any("--step 2" in one for one in ways_on(failed, session, "en"))


@pytest.mark.parametrize(("lang", "words"), [("en", "find out"), ("zh", "自己想出来")])
def test_who_typed_what_a_step_shows_but_not_what_it_asks_for_is_led_to_the_hints(
    begin: Begin, lang: str, words: str
) -> None:
    session, runner = begin("16")
    for step in ("five", "service"):
        session.solve(session.lab.step(step), runner)
    session.show(session.lab.step("gang"))
    types(session, runner, "paictl job explain job-b")
    failed = next(one for one in judged(session) if one.check.id == "b-runs")
    (advice,) = ways_on(failed, session, lang)
    assert words in advice
    assert "paictl lab hint" in advice


@pytest.mark.parametrize(("lang", "words"), [("en", "nodes in common: none"), ("zh", "共用节点：无")])
def test_jobs_that_must_be_apart_are_both_named(begin: Begin, lang: str, words: str) -> None:
    session, _ = begin("02")
    session.show(session.lab.step("owner"))
    finding = next(
        finding
        for one in judged(session)
        for finding in one.findings
        if one.check.id == "owner-runs" and finding.aspect == "shares nodes with"
    )
    expected, _ = finding.say(lang)
    assert words in expected
    assert "job-5" in expected
    assert "job-2" in expected


def test_what_a_skipped_step_would_have_done_is_named_where_it_is_missing(begin: Begin) -> None:
    session, runner = begin("05")
    session.skip("run", "too hard")
    session.skip("pull", "too hard")
    session.show(session.lab.step("stop"))
    types(session, runner, *session.lab.step("stop").commands)
    failed = next(one for one in judged(session) if one.check.id == "stopped")
    assert failed.stuck
    assert failed.left_out == ("run", "pull")


def test_the_order_of_options_does_not_matter(begin: Begin) -> None:
    session, _ = begin("15")
    step = session.lab.step("compare")
    assert "paictl sim compare trace.yaml --config services-configuration.yaml" in session.missing(step)
    typed = commandlog.TypedCommand("paictl sim compare --config=services-configuration.yaml trace.yaml", 1)
    commandlog.append(session.workspace.folder, typed)
    assert "paictl sim compare trace.yaml --config services-configuration.yaml" not in session.missing(step)


def test_a_prediction_has_to_come_before_what_it_foretells(begin: Begin) -> None:
    session, runner = begin("17")
    step = session.lab.step("equal")
    session.play(session.lab.step("look"), Act(), runner)
    session.play(session.lab.step("heavy"), Act(), runner)
    guess = session.lab.step("heavy").guess
    assert guess is not None
    assert session.progress.predictions == {"heavy": guess.en}
    session.show(step)
    first = next(one for one in judged(session) if one.check.id == "equal-runs")
    assert (first.unpredicted, first.status) == ("equal", CheckStatus.FAILED)
    assert any(
        "first write down what you expect: paictl lab predict 3" in line for line in ways_on(first, session, "en")
    )
    types(session, runner, *step.commands)
    late = next(one for one in judged(session) if one.check.id == "equal-runs")
    assert [one.ok for one in late.findings].count(False) == 1, "all but the prediction is there"
    assert any("paictl lab reset --step 3" in line for line in ways_on(late, session, "en"))
    with pytest.raises(LabError, match="can no longer be predicted"):
        session.predict(step, "all alike")
    session.reset_to(step)
    assert not session.predict(step, "fifo is best")
    assert session.predict(step, "all alike") == "fifo is best", "what is replaced is told"
    types(session, runner, *step.commands)
    assert standing(session)["equal-runs"] is CheckStatus.PASSED
    assert session.progress.predictions["equal"] == "all alike"


def test_who_forgot_the_file_has_seen_the_outcome_all_the_same(begin: Begin) -> None:
    session, runner = begin("18")
    step = session.lab.step("elastic")
    session.play(session.lab.step("look"), Act(), runner)
    types(session, runner, "paictl sim compare elastic.csv --policy fifo --cluster 2x4")
    assert not session.outcome_seen(step), "another command"
    types(session, runner, step.commands[0].removesuffix(" --jobs elastic-runs.csv"))
    with pytest.raises(LabError, match="can no longer be predicted"):
        session.predict(step, "tiny gains")
    failed = next(one for one in judged(session) if one.check.id == "elastic-runs")
    assert any("paictl lab reset --step 2" in line for line in ways_on(failed, session, "en"))


def test_what_was_typed_before_a_step_hides_no_outcome_after_going_back_to_it(begin: Begin) -> None:
    session, runner = begin("28")
    asked = session.lab.step("begin")
    types(session, runner, *session.lab.step("plan").commands)
    session.predict(session.lab.step("before"), "short")
    types(session, runner, *session.lab.step("before").commands, "paictl cluster tick 30m", "paictl cluster tick 61m")
    with pytest.raises(LabError, match="can no longer be predicted"):
        session.predict(asked, "it moves")
    session.reset_to(asked)
    assert not session.predict(asked, "it moves")
    session.reset_to(asked)
    types(session, runner, "paictl cluster tick 30m")
    with pytest.raises(LabError, match="can no longer be predicted"):
        session.predict(asked, "it moves")


@pytest.mark.parametrize(("lab", "step"), [("22", "move"), ("25", "owner"), ("26", "after")])
def test_looking_again_as_an_earlier_step_did_is_no_look_at_the_outcome(begin: Begin, lab: str, step: str) -> None:
    session, runner = begin(lab)
    asked = session.lab.step(step)
    for earlier in session.lab.steps[: session.lab.steps.index(asked)]:
        types(session, runner, *earlier.commands)
    assert not session.predict(asked, "it moves")


def test_checks_of_later_steps_are_not_failures(begin: Begin) -> None:
    session, _ = begin("02")
    assert set(standing(session).values()) == {CheckStatus.FAILED, CheckStatus.LATER}
    assert standing(session)["first-runs"] is CheckStatus.FAILED


def test_another_way_to_the_same_end_counts_as_done(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-3.yaml --name job-2")
    step = session.current_step()
    assert step is not None
    assert step.id == "overfill"


def test_a_skipped_step_takes_its_checks_along_and_gives_the_reason(begin: Begin) -> None:
    session, _ = begin("02")
    session.skip("fill", "no time")
    session.skip("too-big", "seen in the lecture")
    assert standing(session)["first-runs"] is CheckStatus.SKIPPED
    assert standing(session)["too-big"] is CheckStatus.SKIPPED
    step = session.current_step()
    assert step is not None
    assert step.id == "overfill"
    with pytest.raises(PaictlError, match="no step or check"):
        session.skip("nothing", "x")


def test_solving_every_step_ends_the_lab(begin: Begin) -> None:
    session, runner = begin("03")
    while (step := session.current_step()) is not None:
        session.solve(step, runner)
    assert set(standing(session).values()) == {CheckStatus.PASSED}
    assert session.progress.solved == list(session.lab.step_ids)


def test_hints_come_in_layers(begin: Begin) -> None:
    session, _ = begin("02")
    step = session.lab.step("overfill")
    layers = [session.hint(step) for _ in range(3)]
    assert [layer[0] for layer in layers if layer] == [1, 2, 2]
    assert session.hint(session.lab.step("owner")) is None


def test_reset_begins_anew_and_keeps_answers(begin: Begin) -> None:
    session, runner = begin("02")
    types(session, runner, "paictl job submit job-2.yaml")
    (session.workspace.files / "job-3.yaml").write_text("spoilt")
    session.answer(1, "because")
    with pytest.raises(PaictlError, match="has already been started"):
        session.start()
    session.reset()
    with pytest.raises(PaictlError, match="has not been started"):
        session.require_started()
    session.start()
    assert session.observation().jobs == []
    assert session.progress.answers == {"1": "because"}
    assert session.progress.passed == {}
    assert "spoilt" not in (session.workspace.files / "job-3.yaml").read_text()
    with pytest.raises(PaictlError, match="questions 1 to 2"):
        session.answer(3, "x")


def test_labs_do_not_disturb_each_other(begin: Begin) -> None:
    two, runner = begin("02")
    three, _ = begin("03")
    types(two, runner, "paictl job submit job-2.yaml")
    assert [job.key for job in two.observation().jobs] == ["ann~job-2"]
    assert three.observation().jobs == []


def test_a_cluster_that_was_taken_down_is_told(begin: Begin) -> None:
    session, _ = begin("02")
    for file in session.workspace.folder.glob("cluster.db*"):
        file.unlink()
    with pytest.raises(PaictlError) as caught:
        session.observe()
    assert "paictl lab reset" in str(caught.value.hint)


def test_progress_is_one_versioned_file_replaced_as_a_whole(tmp_path: Path) -> None:
    file = ProgressFile(tmp_path)
    with file.changing() as progress:
        progress.lab("02_vc_safety").answers["1"] = "中文"
    assert file.read().lab("02_vc_safety").answers == {"1": "中文"}
    assert json.loads(file.path.read_text())["version"] == 2

    def fail_half_way() -> None:
        with file.changing() as progress:
            progress.current = "half"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert file.read().current == ""
    file.path.write_text('{"version": 9}')
    with pytest.raises(PaictlError, match="another version"):
        file.read()
    file.path.write_text("{")
    with pytest.raises(PaictlError, match="is damaged"):
        file.read()


def test_a_command_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    commandlog.append(tmp_path, commandlog.TypedCommand("paictl job list", 0))
    with (tmp_path / commandlog.FILE).open("a") as file:
        file.write('{"command": "pai')
    assert [typed.line for typed in commandlog.read(tmp_path)] == ["paictl job list"]


def test_a_manifest_with_a_mistake_names_the_line(tmp_path: Path) -> None:
    folder = tmp_path / "02_vc_safety"
    folder.mkdir()
    text = (ROOT / "labs" / folder.name / "lab.yaml").read_text()
    (folder / "lab.yaml").write_text(text.replace("after: fill", "after: fil"))
    with pytest.raises(PaictlError, match=r"lab\.yaml:\d+:\d+: no step 'fil'"):
        read_lab(folder)
    (folder / "lab.yaml").write_text(text.replace("lab: 02_vc_safety", "lab: 03_vc_safety"))
    with pytest.raises(PaictlError, match="calls itself"):
        read_lab(folder)


def test_labs_are_found_by_number_id_and_topic() -> None:
    assert {find_lab(word).id for word in ("2", "02", "02_vc_safety", "vc_safety")} == {"02_vc_safety"}
    with pytest.raises(PaictlError, match="no lab 'xyz'"):
        find_lab("xyz")
    with pytest.raises(PaictlError, match="several labs"):
        find_lab("_")


def test_a_chinese_text_that_yaml_folded_has_no_space_in_it() -> None:
    folded = [question.answer.zh for lab in all_labs() for question in lab.questions if len(question.answer.zh) > 60]
    assert len(folded) > 10
    assert not [text for text in folded if re.search(r"[\u4e00-\u9fff] [\u4e00-\u9fff]", text)]


def test_a_step_begins_once_all_of_the_step_before_was_typed(begin: Begin) -> None:
    """The check of lab 25's first step passes before its last eleven minutes, which a way back must not lose."""
    session, runner = begin("25")
    twenty = "paictl cluster tick 20m"
    types(session, runner, "paictl job submit lent-1.yaml", twenty, "paictl job submit lent-2.yaml", twenty)
    types(session, runner, "paictl job submit lent-3.yaml")
    assert standing(session)["all-lent"] is CheckStatus.PASSED
    types(session, runner, "paictl cluster tick 11m", "paictl job list", "paictl job submit owner.yaml")
    session.reset_to(session.step_named("2"))
    assert session.observation().now == 51 * 60_000
    types(session, runner, twenty, "paictl job list")
    session.reset_to(session.step_named("2"))
    assert session.observation().now == 51 * 60_000, "what no step asks for is not how a step begins"


def test_only_one_way_back_is_named_where_a_mistake_and_a_prediction_are_to_be_mended(begin: Begin) -> None:
    session, runner = begin("25")
    twenty = "paictl cluster tick 20m"
    types(session, runner, "paictl job submit lent-1.yaml", twenty, "paictl job submit lent-2.yaml", twenty)
    types(session, runner, "paictl job submit lent-3.yaml", "paictl job submit owner.yaml")
    failed = next(one for one in judged(session) if one.check.id == "least-loss")
    first, second = ways_on(failed, session, "zh")
    assert "paictl lab reset --step 2" in first
    assert second == '重做时先写下你的预测：paictl lab predict 2 "…"'
