"""Details of events: the message in English, and the same in another language from kind and data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paictl.cli.lab.inprocess import called, silent_runner
from paictl.cluster import eventtext
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.eventtext import detail
from paictl.i18n import in_language
from paictl.lab.manifest import find_lab
from paictl.lab.session import Session
from tests.conftest import ROOT


def test_every_detail_is_its_message_in_english_and_chinese_in_chinese(tmp_path: Path) -> None:
    session = Session(find_lab("13"), tmp_path)
    session.start()
    with called("ann"):
        for step in session.lab.steps[:4]:
            session.play(step, step.solution, silent_runner(session))
        silent_runner(session)("paictl job submit early.yaml --name x --priority oppo")
    events = session.observation().events
    assert {event.kind.value for event in events} >= {"Submitted", "Started", "Cordoned", "Failed", "Ready"}
    for event in events:
        assert detail(event) == event.message
        chinese = in_language(detail(event), "zh")
        names = r"(pod|master|worker)"  # words that are the same in both languages
        assert not event.message or re.search(r"[\u4e00-\u9fff]", chinese) or re.search(names, chinese), chinese


def test_windows_and_reservations_are_told_in_both_languages(tmp_path: Path) -> None:
    session = Session(find_lab("26"), tmp_path)
    session.start()
    run = silent_runner(session)
    with called("ann"):
        run("paictl reservation add --vc vc1 --cells 1xK80-NODE --from +1h --for 1h --name lecture --reason talk")
        run("paictl job submit short.yaml --vc default")
        run("paictl maintenance add --nodes worker1 --from +10m --for 20m --reason disks --name disks --yes")
        run("paictl maintenance add --nodes worker2 --from +10m --for 20m --name plain --yes")
        run("paictl cluster tick 3h")
    events = [
        event for event in session.observation().events if "reservation/" in event.subject or "Maint" in event.kind
    ]
    kinds = {event.kind.value for event in events}
    assert kinds >= {
        "ReservationAdded",
        "ReservationStarted",
        "ReservationEnded",
        "MaintenancePlanned",
        "MaintenanceEnded",
    }
    assert isinstance(session.observation().cluster, EmbeddedCluster)
    for event in events:
        assert detail(event) == event.message
        assert re.fullmatch(r"[^a-z]*|.*[\u4e00-\u9fff（）].*", in_language(detail(event), "zh")), event


def test_a_task_that_returns_to_its_own_node_is_not_told_to_run_elsewhere(tmp_path: Path) -> None:
    session = Session(find_lab("32"), tmp_path)
    session.start()
    run = silent_runner(session)
    with called("ann"):
        run("paictl job submit member.yaml")
        for name in ("worker3", "worker4", "worker1"):
            run(f"paictl node fail {name}")
        run("paictl cluster tick 1m")
        run("paictl node heal worker1")
        run("paictl node fail worker2")
        run("paictl node heal worker3")
        run("paictl cluster tick 1m")
    events = [event for event in session.observation().events if event.kind.value in ("Lost", "Repaired")]
    assert [(event.kind.value, event.message) for event in events] == [
        ("Lost", "train[0]: its node has failed"),
        ("Repaired", "train[0] runs on worker1, 55 s after it was lost"),
        ("Lost", "train[1]: its node has failed"),
        ("Repaired", "train[1] runs on worker3 instead of worker2, 0 s after it was lost"),
    ]
    assert [detail(event) for event in events] == [event.message for event in events]
    assert [in_language(detail(event), "zh") for event in events if event.kind.value == "Repaired"] == [
        "train[0] 在 worker1 上运行，丢失后 55 秒恢复",
        "train[1] 改在 worker3 上运行（原为 worker2），丢失后 0 秒恢复",
    ]


@pytest.mark.parametrize("sentence", eventtext._REASONS)
def test_a_reason_that_is_recalled_is_said_somewhere(sentence: str) -> None:
    """Whoever words one anew has to do so here, too, or Chinese readers get it in English."""
    longest = max(re.split(r"\{\w+\}", sentence), key=len).strip(" ,:;()")
    others = (path for path in (ROOT / "paictl").rglob("*.py") if path.name != "eventtext.py")
    assert any(longest in path.read_text(encoding="utf-8") for path in others)
