"""What an extender records and shows of its decisions, and what `paictl support replay` makes of it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.doors import housekeeping
from paictl.doors.core import NotServingError
from paictl.operate.recorded_decisions import Replay
from paictl.operate.replay import replay
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.playback import play
from tests.unit.extender.conftest import mig_spec
from tests.unit.extender.harness import Harness, gang, served
from tests.unit.scheduler.support import NODES, config

SPEC = ClusterSpec.from_mapping(config(A={"NODE": 2}, B={"NODE": 2}))
PLANTED = "planted-secret-51d7"


@pytest.fixture
def harness() -> Harness:
    """A preemption, and a restart that recovers what runs; pods with a secret wherever they may have one."""
    made = Harness(SPEC)
    made.open(NODES)
    for i in range(4):
        (weak,) = gang(f"weak-{i}", 1, 4, priority=-1)
        weak["metadata"]["annotations"]["token"] = PLANTED
        weak["metadata"]["labels"] = {"password": PLANTED}
        weak["spec"]["containers"][0] |= {"env": [{"name": "KEY", "value": PLANTED}], "command": [PLANTED]}
        made.run(weak)
    made.begin(SPEC)
    made.open(NODES)
    (strong,) = gang("strong", 1, 4, priority=5)
    assert not made.ask(strong).names
    (preemption,) = housekeeping.preemptions(made.core)
    ((_, (victim,)),) = preemption.victims
    made.delete(victim.removeprefix("uid-"))
    made.run(strong)
    return made


def record_of(harness: Harness) -> dict[str, Any]:
    with served(harness) as caller:
        status, data = caller.call("GET", "/v1/inspect/decisions")
    assert status == 200
    found: dict[str, Any] = data
    return found


def played(data: Any, folder: Path, name: str = "folder/scheduler/hivedscheduler-extender/decisions.json") -> Replay:
    file = folder / "b.tar.gz"
    body = json.dumps(data).encode()
    with tarfile.open(file, "w:gz") as tar:
        about = tarfile.TarInfo(name)
        about.size = len(body)
        tar.addfile(about, io.BytesIO(body))
    return replay(file)


def test_the_record_of_a_door_is_decided_alike_again(harness: Harness, tmp_path: Path) -> None:
    done = played(record_of(harness), tmp_path)
    assert (done.difference, done.dropped) == ("", 0)
    kinds = [one.kind for one in done.decisions]
    assert kinds == ["recover", "preempt", "bind"]
    assert done.decisions[0].message == "4 running pods"
    assert done.decisions[1].subject == "pod/default/strong-0"
    assert done.decisions[1].message.startswith("these pods must leave: default/weak-")
    assert all(one.same for one in done.decisions)


def test_a_record_holds_no_secret_of_a_pod(harness: Harness) -> None:
    text = json.dumps(record_of(harness))
    assert "default/weak-0" in text
    assert PLANTED not in text


def test_a_scheduler_that_stopped_leaves_its_record_and_shows_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise InvariantError("planted")

    for key in [key for key in harness.server.pods if "weak" in key]:
        harness.delete(key.partition("/")[2])
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_bind", broken)
        with pytest.raises(NotServingError):
            harness.ask(gang("more", 1, 4, "B")[0])
    assert harness.core.broken == "the scheduler has stopped: planted"
    data = record_of(harness)
    assert data["end"] is None
    done = played(data, tmp_path)
    assert "was recorded as stopped planted, but replay gives bind node" in str(done.difference)
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"error": "planted", "engine": {}, "decisions": data}))
    assert replay(dump).difference == done.difference


def test_mig_instances_have_the_names_that_containers_get(tmp_path: Path) -> None:
    made = Harness(mig_spec(2))
    made.open(["n0", "n1", "n2", "n3"])
    made.run(*gang("small", 1, 2))
    with made.core.guarded():
        made.core.book.report_device("n0", 3, False, 9.0)
    done = played(record_of(made), tmp_path)
    assert done.difference == ""
    assert [str(one.message) for one in done.decisions if one.kind == "bind"] == ["node n0, devices 0:0, 0:1"]
    subjects = [one.subject for one in play(record_of(made)) if one.kind == "device"]
    assert subjects == ["n0:1:1"]
