"""A term against a played API server: what a watch never told, and an engine that contradicts itself."""

from __future__ import annotations

import gc
import http.client
import json
import math
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml

from paictl.cluster.manifests.certificates import renewed
from paictl.doors import service
from paictl.doors.core import DoorOptions, NotServingError
from paictl.doors.pod_events import PodEvent
from paictl.doors.service import DoorSettings
from paictl.doors.table import PodRef
from paictl.doors.term import LeaderTerm
from paictl.errors import PaictlError
from paictl.extender.server import ExtenderService
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.remote.kube.events import NewEvent, PodReference
from paictl.remote.kube.informer import InformerTimes
from paictl.scheduler.errors import InvariantError
from tests.unit.extender.conftest import CONFIG, NODES, spec
from tests.unit.extender.harness import Harness, gang

GROUPS = "/apis/scheduling.k8s.io/v1beta1"


class Cluster:
    """Lists what there is; its watches say nothing, and end."""

    context = where = "test"

    def __init__(self) -> None:
        self.away = False
        """Whether the API server does not say what it serves."""
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.things: dict[str, list[Json]] = {
            "/api/v1/nodes": [{"metadata": {"name": name, "uid": name}, "status": ready} for name in NODES],
            "/api/v1/pods": [],
        }

    def list(self, path: str, _query: Mapping[str, object] | None = None) -> Iterator[tuple[str, list[Json]]]:
        yield "1", list(self.things[path])

    def get(self, path: str) -> Json:
        if self.away:
            raise NoAnswerError("no answer")
        if path == GROUPS and f"{GROUPS}/podgroups" in self.things:
            return {"resources": [{"name": "podgroups"}]}
        raise KubeError("not found", status=404)

    def request(self, _method: str, _path: str, _body: Json) -> Json:
        return {"status": {"allowed": True}}

    def open(self, *_: object) -> Cluster:
        return self

    def lines(self) -> Iterator[bytes]:
        time.sleep(0.02)
        return iter(())


class Forbidding(Cluster):
    """Allows nothing."""

    def list(self, path: str, _query: Mapping[str, object] | None = None) -> Iterator[tuple[str, list[Json]]]:
        raise KubeError(f'GET {path}: User "x" is forbidden to list', status=403)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, and a process of which nothing stays behind in this one."""
    monkeypatch.setattr(service, "POLL", 0.02)
    for module, name in ((gc, "set_threshold"), (gc, "freeze"), (gc, "unfreeze"), (sys, "setswitchinterval")):
        monkeypatch.setattr(module, name, lambda *_: None)
    written = tmp_path / "hivedscheduler.yaml"
    skus = {"GPU": {"gpu": 1, "cpu": 1, "memory": "1Gi"}}
    written.write_text(yaml.safe_dump({**CONFIG, "physicalCluster": {"skuTypes": skus, **CONFIG["physicalCluster"]}}))
    return written


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_end_that_the_watch_never_told_is_found_by_the_next_list(harness: Harness) -> None:
    made = gang("g", 1, 4)[0]
    harness.run(made)
    cluster = Cluster()
    cluster.things["/api/v1/pods"] = [made]
    client: Any = cluster
    times = InformerTimes(relist=0.1)
    term = LeaderTerm(client, spec(), DoorOptions(), lambda _event: None, remaining=lambda: math.inf, times=times)
    term.start()
    try:
        until(lambda: term.core.is_open)
        assert made["metadata"]["uid"] in term.core.book.pods
        cluster.things["/api/v1/pods"] = []  # nobody says so
        until(lambda: made["metadata"]["uid"] not in term.core.book.pods)
    finally:
        term.stop()


@pytest.mark.parametrize("late", [False, True])
def test_a_pod_that_cannot_be_taken_in_keeps_its_node_from_others_until_it_is_gone(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    """A fault that nobody foresaw: the door opens without the pod, and gives its devices to nobody."""
    made = gang("g", 1, 4)[0]
    harness.run(made)
    node = made["spec"]["nodeName"]
    cluster = Cluster()
    cluster.things["/api/v1/pods"] = [] if late else [made]

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    client: Any = cluster
    times = InformerTimes(relist=0.1)
    term = LeaderTerm(client, spec(), DoorOptions(), lambda _event: None, remaining=lambda: math.inf, times=times)
    monkeypatch.setattr(term.core, "_runs", fail)
    term.start()
    try:
        until(lambda: term.core.is_open)
        cluster.things["/api/v1/pods"] = [made]
        until(lambda: set(term.core.health.bad) == {node})
        assert "default/g-0" in term.core.health.bad[node]
        assert term.core.book.health[node] is False
        cluster.things["/api/v1/pods"] = []
        until(lambda: not term.core.health.bad)
        assert term.core.book.health[node] is True
    finally:
        term.stop()


def test_windows_are_followed_and_damaged_ones_keep_a_door_that_starts_shut() -> None:
    cluster = Cluster()
    path = "/api/v1/namespaces/paictl-system/configmaps"
    about = {"name": "paictl-maintenance", "namespace": "paictl-system", "uid": "u"}
    cluster.things[path] = [{"metadata": {**about, "resourceVersion": "1"}, "data": {"windows.json": "[{"}}]
    client: Any = cluster
    term = LeaderTerm(
        client,
        spec(),
        DoorOptions(),
        lambda _event: None,
        remaining=lambda: math.inf,
        times=InformerTimes(relist=0.1),
        maintenance="paictl-system",
    )
    term.start()
    try:
        until(lambda: "the maintenance windows are corrupt" in term.problem)
        assert not term.core.is_open, "a pod could get a place in maintenance"
        rows = [{"name": "w", "nodes": ["n0"], "start": "2001-01-01T00:00:00Z", "end": "2999-01-01T00:00:00Z"}]
        fixed = {"metadata": {**about, "resourceVersion": "2"}, "data": {"windows.json": json.dumps(rows)}}
        cluster.things[path] = [fixed]
        until(lambda: term.core.is_open)
        assert [one.name for one in term.core.windows.current] == ["w"]
        cluster.things[path] = []
        until(lambda: not term.core.windows.current)
    finally:
        term.stop()


def test_pod_groups_are_followed_as_soon_as_the_api_server_says_where_they_are(file: Path) -> None:
    cluster = Cluster()
    cluster.things[f"{GROUPS}/podgroups"] = [
        {
            "metadata": {"namespace": "default", "name": "g", "uid": "u"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        }
    ]
    cluster.away = True
    client: Any = cluster
    made = ExtenderService(client, DoorSettings(file, events=False), lambda _line: None)
    made.start()
    try:
        until(lambda: made.current is not None and made.current.core.is_open)
        assert made.current is not None
        assert made.current.pod_groups is None
        cluster.away = False
        until(lambda: made.current is not None and "default/g" in made.current.core.table.pod_groups.known)
    finally:
        made.stop()


def test_what_is_said_of_a_pod_reaches_the_recorder_whole(file: Path) -> None:
    client: Any = Cluster()
    made, said = ExtenderService(client, DoorSettings(file, events=False), lambda _line: None), list[NewEvent]()
    made.events.record = said.append  # type: ignore[assignment]
    made.record(PodEvent(PodRef("d", "p", "u"), "Preempted", "why", warning=True, once=True))
    made.record(PodEvent(PodRef("d", "p", "u"), "ForceBind", "how"))
    subject = PodReference("d", "p", "u")
    assert said == [
        NewEvent(subject, "Preempted", "why", warning=True, vital=True, once=True),
        NewEvent(subject, "ForceBind", "how"),
    ]


def test_an_engine_that_contradicts_itself_is_written_down_and_ends_the_process(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    client: Any = Cluster()
    made = ExtenderService(
        client, DoorSettings(file, host="127.0.0.1", port=0, events=False, dump=dump), lambda _line: None
    )

    def contradict() -> None:
        until(lambda: made.current is not None and made.current.core.is_open)
        assert made.current is not None
        core = made.current.core
        monkeypatch.setattr(core.book, "report", _broken)
        with suppress(NotServingError):
            core.node_gone("n0")

    def _broken(*_: object) -> None:
        raise InvariantError("free cells and taken ones overlap")

    other = threading.Thread(target=contradict)
    other.start()
    with pytest.raises(PaictlError, match=r"the scheduler has stopped: .*overlap; the state is in") as ended:
        made.run()
    other.join(10)
    assert ended.value.exit_code == 2
    assert ended.value.hint is not None
    assert "report it" in ended.value.hint
    (written,) = dump.iterdir()
    assert str(written) in ended.value.message
    data = json.loads(written.read_text())
    assert "overlap" in data["error"]
    assert data["engine"]["digest"]


def test_a_broken_engine_that_cannot_be_written_down_ends_the_process_too(file: Path, tmp_path: Path) -> None:
    client: Any = Cluster()
    settings = DoorSettings(file, host="127.0.0.1", port=0, events=False, dump=tmp_path / "absent")
    made = ExtenderService(client, settings, lambda _line: None)

    def contradict() -> None:
        until(lambda: made.current is not None and made.current.core.is_open)
        assert made.current is not None
        made.current.core.broken = "free cells and taken ones overlap"

    other = threading.Thread(target=contradict)
    other.start()
    with pytest.raises(PaictlError, match="overlap; the state could not be written: FileNotFoundError"):
        made.run()
    other.join(10)


def test_told_to_end_it_ends_in_good_order(file: Path) -> None:
    """SIGTERM by default kills whoever hands it on: the lease would stay held, and what is untold would stay so."""
    client: Any = Cluster()
    made = ExtenderService(client, DoorSettings(file, host="127.0.0.1", port=0, events=False), lambda _line: None)
    killed: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: killed.append(number))

    def tell() -> None:
        until(lambda: made._server is not None and made._server.started)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=tell)
    other.start()
    try:
        made.run()
    finally:
        signal.signal(signal.SIGTERM, before)
        other.join(10)
    assert made.current is None, "the term has ended"
    assert killed == [], "nobody was handed the signal"


def test_what_keeps_it_from_its_work_is_said_once_and_with_what_to_do(file: Path) -> None:
    client: Any = Forbidding()
    said: list[str] = []
    made = ExtenderService(client, DoorSettings(file, events=False), said.append)
    made.start()
    try:
        until(lambda: len([line for line in said if "cannot be followed" in line]) == 2)
        file.unlink()
        until(lambda: any(line.startswith("the configuration: ") for line in said))
    finally:
        made.stop()
    for kind in ("nodes", "pods"):
        (line,) = [line for line in said if line.startswith(f"{kind} cannot be followed")]
        assert "is forbidden" in line
        assert "paictl extender config" in line
    (line,) = [line for line in said if line.startswith("the configuration: ")]
    assert f"{file} cannot be read; its previous content stays in use" in line


def test_another_extender_without_an_election_is_said(file: Path, harness: Harness) -> None:
    mine, others, said = gang("mine", 1, 1)[0], gang("others", 1, 1)[0], list[str]()
    harness.run(mine)
    harness.core.pod_changed(mine)
    assert harness.core.rival == ""
    second = Harness(spec())
    second.open(NODES)
    second.run(others)
    harness.core.pod_changed(others)
    assert "pod default/others-0 was bound by another" in harness.core.rival
    assert "--leader-elect" in harness.core.rival
    client: Any = Cluster()
    made = ExtenderService(client, DoorSettings(file, events=False), said.append)
    made.start()
    try:
        until(lambda: made.current is not None and made.current.core.is_open)
        assert made.current is not None
        made.current.core.rival = harness.core.rival
        until(lambda: said[-1] == f"two extenders: {harness.core.rival}")
    finally:
        made.stop()


def test_what_is_wrong_with_the_configuration_is_said_although_it_answers(file: Path) -> None:
    client: Any = Cluster()
    made = ExtenderService(client, DoorSettings(file, events=False), lambda _line: None)
    assert made.warnings() == []
    good = file.read_text()
    file.write_text("virtualClusters: 7\n")
    made._reread()
    (said,) = made.warnings()
    assert "the changed configuration is not used" in said
    file.unlink()
    (said,) = made.warnings()
    assert f"{file} cannot be read; its previous content stays in use" in said
    file.write_text(good)
    made._reread()
    assert made.warnings() == []


@pytest.mark.parametrize("mode", ["claims", "auto"])
def test_mig_instances_are_not_had_by_claims(file: Path, mode: str) -> None:
    file.write_text(file.read_text().replace("    GPU:\n", "    GPU:\n      migInstances: 2\n", 1))
    client: Any = Cluster()
    settings = DoorSettings(file, events=False)
    assert ExtenderService(client, settings, lambda _line: None).read.spec.mig_instances("POOL") == 2
    with pytest.raises(
        PaictlError, match="leaf cells GPU are MIG instances, and claims only know whole GPUs"
    ) as refused:
        ExtenderService(client, settings.with_devices(mode), lambda _line: None)
    assert refused.value.where == str(file)


@contextmanager
def reached(door: ExtenderService, authority: Path | None) -> Iterator[http.client.HTTPConnection]:
    """A client without a certificate of its own, at the door's own server."""
    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(door._http())
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    port: int = sock.getsockname()[1]
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    if authority is not None:
        context = ssl.create_default_context(cafile=authority)
        context.check_hostname = False
        made = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    try:
        yield made
    finally:
        made.close()
        server.should_exit = True
        thread.join(10)
        sock.close()


@pytest.mark.parametrize("guarded", [False, True])
def test_callers_need_a_certificate_where_its_authority_is_given_and_a_door_without_says_so(
    file: Path, guarded: bool
) -> None:
    said: list[str] = []
    client: Any = Cluster()
    options: dict[str, Any] = {}
    if guarded:
        names = {"client_authority": "ca_crt", "certificate": "server_crt", "key": "server_key"}
        options = {option: file.with_name(name) for option, name in names.items()}
        made = renewed(None, "localhost", time.time())
        for path in options.values():
            path.write_text(getattr(made, path.name))
    door = ExtenderService(client, DoorSettings(file, events=False, **options), said.append)
    door.start()
    try:
        until(lambda: door.current is not None and not door.current.problem)
        with reached(door, options.get("client_authority")) as stranger:
            answers = {}
            for method, path in (("POST", "/v1/extender/bind"), ("GET", "/metrics"), ("GET", "/readyz")):
                stranger.request(method, path, b"{}" if method == "POST" else None)
                reply = stranger.getresponse()
                answers[path], _ = reply.status, reply.read()
    finally:
        door.stop()
    assert answers == {
        "/v1/extender/bind": 401 if guarded else 200,
        "/metrics": 401 if guarded else 200,
        "/readyz": 200,
    }
    assert any("every client that reaches this port" in line for line in said) is not guarded
