"""Senders that mean no good, against the server's own settings: nonsense, large bodies, slow ones, silent ones."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import select
import socket
import string
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from paictl.doors.binder import Binder
from paictl.extender import server, verbs
from paictl.extender.wire import BindArgs
from paictl.serving import bodies, connections
from tests.strangers import unfinished
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Caller, Harness, gang, pod, served

VERBS = ("filter", "bind", "preempt")


@pytest.fixture
def caller(harness: Harness) -> Iterator[Caller]:
    with served(harness) as made:
        yield made


NONSENSE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1 << 70,
    1.5,
    "",
    "x",
    "\x00",
    "n" * 5000,
    [],
    [None],
    {},
    {"a": {}},
    [[[]]],
    {"metadata": None},
    {"name": {}},
)


def mutated(dice: random.Random, value: Any, depth: int = 0) -> Any:
    """A value with something in it replaced, dropped, doubled or nested."""
    if dice.random() < 0.1 or depth > 6:
        return dice.choice(NONSENSE)
    if isinstance(value, dict) and value:
        changed = dict(value)
        key = dice.choice(list(changed))
        if dice.random() < 0.15:
            changed.pop(key)
        else:
            changed[key] = mutated(dice, changed[key], depth + 1)
        return changed
    if isinstance(value, list) and value:
        place = dice.randrange(len(value))
        return [*value[:place], mutated(dice, value[place], depth + 1), *value[place:]]
    return dice.choice(NONSENSE)


@pytest.mark.parametrize("seed", range(4))
def test_no_call_gives_more_than_an_answer_that_says_what_is_wrong(
    caller: Caller, harness: Harness, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(server, "LAG", 0)
    dice = random.Random(seed)  # noqa: S311
    for number in range(250):
        made = pod(f"p{number}", {"virtualCluster": "A", "priority": 0, "leafCellNumber": 1})
        if dice.random() < 0.8:
            harness.create(made)
        if dice.random() < 0.4:
            made["metadata"]["annotations"] = {
                "hivedscheduler.microsoft.com/pod-scheduling-spec": dice.choice(
                    [
                        "{",
                        "[" * 3000,
                        "virtualCluster: A\nleafCellNumber: .inf",
                        "&a [*a]",
                        "!!python/object:x {}",
                        "\t",
                    ]
                )
            }
        verb = dice.choice(VERBS)
        body: Any = {
            "filter": {"Pod": made, "Nodes": None, "NodeNames": NODES},
            "bind": {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n0"},
            "preempt": {"Pod": made, "NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}},
        }[verb]
        for _ in range(dice.randrange(1, 4)):
            body = mutated(dice, body)
        data = json.dumps(body).encode()
        if dice.random() < 0.2:
            data = data[: dice.randrange(len(data) + 1)] + dice.choice([b"", b"\xff", b"}", b"\x00"])
        status, answer = caller.call("POST", f"/v1/extender/{verb}", data)
        text = json.dumps(answer)
        assert status in (200, 400, 409), text
        assert "Traceback" not in text
        assert "internal error" not in text, (verb, data[:500], text)
    good = gang("good", 1, 1, "B")[0]
    assert caller.filter(harness.create(good), NODES)["NodeNames"], "and the next one is served as if nothing had been"


def test_large_bodies_are_refused_and_cost_no_memory(caller: Caller) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chunk = b" " * (1 << 20)
    for declared in (True, False):
        raw = socket.create_connection(("127.0.0.1", caller.port))
        length = b"Content-Length: 52428800" if declared else b"Transfer-Encoding: chunked"
        raw.sendall(b"POST /v1/extender/filter HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n")
        raw.settimeout(10)
        try:
            for _ in range(50):
                raw.sendall(chunk if declared else b"100000\r\n" + chunk + b"\r\n")
            answer = raw.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            answer = b"413, and the connection closed before it was all sent"
        assert b"413" in answer
        raw.close()
    assert caller.call("GET", "/healthz")[0] == 200
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 3 * bodies.MAX_BODY / 2**20, f"{grown:.0f} MB more"


def test_slow_senders_are_given_up_and_keep_nobody_waiting(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 2.0)
    with served(harness) as caller:
        slow = []
        for _ in range(30):
            raw = socket.create_connection(("127.0.0.1", caller.port))
            raw.sendall(b"POST /v1/extender/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            slow.append(raw)
        assert caller.filter(harness.create(gang("quick", 1, 1)[0]), NODES)["NodeNames"]
        assert select.select(slow, [], [], 0)[0] == [], "it was answered before anybody was given up"
        for raw in slow:
            raw.settimeout(10)
            assert b"408" in raw.recv(100)
            raw.close()


@pytest.mark.parametrize("path", ["filter", "bind"])
def test_a_stranger_with_all_connections_keeps_kube_scheduler_waiting_for_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for name, number in (("CONNECTIONS", 96), ("ROOM", 16), ("PER_ADDRESS", 48)):
        monkeypatch.setattr(connections, name, number)
    data = f"POST /v1/extender/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode()
    with served(harness) as caller, contextlib.ExitStack() as stranger:
        for number in range(20):
            if number == 1:
                stranger.enter_context(unfinished(caller.port, data, 96))
            caller.filter(harness.create(gang(f"kept{number}", 1, 1)[0]), NODES)  # on the one connection that it keeps
            with Caller(caller.port) as fresh:  # kube-scheduler has begun anew
                assert fresh.call("GET", "/readyz")[0] == 200


def test_a_body_that_drips_is_ended_however_it_was_answered(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 1.0)
    with served(harness) as caller:
        raw = socket.create_connection(("127.0.0.1", caller.port))
        raw.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        raw.settimeout(15)
        answer = raw.recv(1000)
        assert b"404" in answer
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(1000) == b"", "the connection has ended"
        raw.close()


PATHS = (
    "/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/picture",
    "/v1/inspect/affinitygroups/",
    "/v1/inspect/clusterstatus",
    "/v1/inspect/clusterstatus/physicalcluster",
    "/v1/inspect/clusterstatus/virtualclusters/",
    "/v1/inspect/clusterstatus/virtualclusters/A",
    "/v1/explain/pods/default/good-0",
    "/v1/extender/filter",
)
ODD = ("%00", "%2e%2e/", "//", "%ff", "%", "%zz", "?a=b&a", ";", "\\", "%0d%0aX:y", "~", "A" * 3000, "%E4%BD%A0", "#x")


def test_no_path_gives_more_than_an_answer_that_says_what_is_wrong(caller: Caller, harness: Harness) -> None:
    dice = random.Random(7)  # noqa: S311
    caller.filter(harness.create(gang("good", 1, 1)[0]), NODES)
    seen = set()
    for _ in range(400):
        path = dice.choice(PATHS)
        for _ in range(dice.randrange(3)):
            at = dice.randrange(1, len(path) + 1)
            path = path[:at] + dice.choice([*ODD, dice.choice(string.ascii_letters), "/"]) + path[at:]
        method = dice.choice(["GET", "GET", "GET", "HEAD", "PUT", "OPTIONS"])
        headers = {"Accept": dice.choice(["*/*", "text/html", "\x7f", "a" * 2000]), "Content-Length": "0"}
        status, text = _asked(caller.port, method, path, headers)
        seen.add(status)
        assert status in (200, 400, 404, 429), (method, path, status, text)
        assert "Traceback" not in text
        assert "internal error" not in text.lower(), (method, path, text)
    assert seen >= {200, 400, 404}


def _asked(port: int, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Status and text, whatever http.client would not send."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        raw.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n".encode())
        data = b"".join(iter(lambda: raw.recv(1 << 16), b""))
    return int(data.split(b" ", 2)[1]), data.decode(errors="replace")


def test_who_never_ends_the_head_of_a_request_is_given_up(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """One says nothing, one begins, one has been answered before and begins again, one sends headers without end."""
    again = socket.create_connection(("127.0.0.1", caller.port), 30)
    again.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200 OK" in again.recv(1000)
    monkeypatch.setattr(bodies, "PATIENCE", 1.0)
    silent, slow, endless = (socket.create_connection(("127.0.0.1", caller.port), 30) for _ in range(3))
    slow.sendall(b"POST /v1/extender/filter HTTP/1.1\r\nHo")
    again.sendall(b"GET /hea")
    endless.sendall(b"GET /healthz HTTP/1.1\r\n")
    with pytest.raises(OSError):  # noqa: PT011 - whichever way it notices
        endless.sendall(b"X: y\r\n" * 10_000_000)
    for raw in (silent, slow, again):
        assert raw.recv(100) == b"", "closed without a word"
        raw.close()
    endless.close()


def test_silent_connections_leave_room_for_those_who_ask(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 12)
    with served(harness) as caller:
        idle = [socket.create_connection(("127.0.0.1", caller.port), 10) for _ in range(40)]
        for number in range(3):
            (made,) = gang(f"asked-{number}", 1, 1)
            with Caller(caller.port) as fresh:
                assert fresh.filter(harness.create(made), NODES)["NodeNames"]
        for raw in idle:
            raw.close()


def test_large_bodies_at_the_same_time_are_bounded_together(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is too large by itself; who asks something ordinary meanwhile is answered."""
    monkeypatch.setattr(bodies, "IN_FLIGHT", 4 << 20)
    length = 2 << 20
    senders = [socket.create_connection(("127.0.0.1", caller.port), 10) for _ in range(4)]
    for raw in senders:
        raw.sendall(b"POST /v1/extender/filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (length + 1))
    refused = 0
    for raw in senders:
        try:
            raw.sendall(b" " * length)
        except OSError:
            refused += 1
    readable, _, _ = select.select(senders, [], [], 5)
    assert b"503" in readable[0].recv(100)
    assert caller.call("POST", "/v1/extender/filter", b"{}")[0] == 200
    assert len(readable) + refused < 4, "the others may go on"
    for raw in senders:
        raw.close()


def test_questions_wait_while_too_many_bind(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler would ask on, and the last bindings would be given up before their turn."""
    monkeypatch.setattr(server, "BACKLOG", 2)
    monkeypatch.setattr(server, "LONGEST_WAIT", 60.0)
    made = [harness.create(one) for one in gang("g", 3, 2)]
    began, answer, bind = threading.Semaphore(0), threading.Event(), verbs.bind

    def slow(binder: Binder, args: BindArgs) -> str:
        began.release()
        answer.wait(20)
        return bind(binder, args)

    monkeypatch.setattr(verbs, "bind", slow)
    with served(harness) as caller, Caller(caller.port) as one, Caller(caller.port) as other:
        nodes = [caller.filter(each, NODES)["NodeNames"][0] for each in made]
        binds = [
            threading.Thread(target=one.bind, args=(made[0], nodes[0])),
            threading.Thread(target=other.bind, args=(made[1], nodes[1])),
        ]
        for thread in binds:
            thread.start()
            assert began.acquire(timeout=10)
        late = threading.Thread(target=caller.filter, args=(made[2], NODES))
        late.start()
        late.join(0.3)
        assert late.is_alive(), "it waits"
        answer.set()
        for thread in (*binds, late):
            thread.join(20)
            assert not thread.is_alive()
