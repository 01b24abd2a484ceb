"""List and watch against a server that misbehaves: whatever happens, the listener ends up with what is there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.remote.kube.informer import Informer, InformerTimes


def thing(name: str, uid: str = "", version: int = 1) -> Json:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}}


class World:
    """A listener that believes what it is told."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.told: list[str] = []

    def changed(self, thing: Json) -> None:
        about = thing["metadata"]
        self.known[about["name"]] = f"{about['uid']}@{about['resourceVersion']}"
        self.told.append(f"+{about['name']}")

    def gone(self, key: str, uid: str) -> None:
        assert self.known.get(key, f"{uid}@").startswith(f"{uid}@")
        self.known.pop(key, None)  # the end of what it was never told of is no news
        self.told.append(f"-{key}")

    def synced(self) -> None:
        self.told.append("synced")


class Server:
    """What the client would be: objects, and what the next watches say."""

    where = "test"

    def __init__(self) -> None:
        self.things: dict[str, Json] = {}
        self.version = 1
        self.watches: list[list[Any]] = []
        self.asked: list[str] = []

    def list(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[tuple[str, list[Json]]]:
        self.asked.append(f"list {path} {query}")
        yield str(self.version), list(self.things.values())[:1]
        yield str(self.version), list(self.things.values())[1:]

    def open(self, path: str, query: Mapping[str, object], read: float) -> Server:
        self.asked.append(f"watch {path} {query['resourceVersion']} {read}")
        return self

    def lines(self) -> Iterator[bytes]:
        for line in self.watches.pop(0):
            if isinstance(line, Exception):
                raise line
            yield line if isinstance(line, bytes) else orjson.dumps(line)


def event(kind: str, what: Json) -> Json:
    return {"type": kind, "object": what}


def informer(server: Server, world: World, **times: float) -> Informer:
    return Informer(server, "/things", world, times=InformerTimes(**times))  # type: ignore[arg-type]


def test_a_list_is_compared_with_what_was_told() -> None:
    server, world = Server(), World()
    server.things = {"a": thing("a"), "b": thing("b")}
    one = informer(server, world)
    one._list()
    server.things = {"b": thing("b", version=7), "c": thing("c")}
    one._list()
    assert world.known == {"b": "uid-b@7", "c": "uid-c@1"}
    world.told.clear()
    one._list()
    assert world.told == ["synced"], "what has not changed is not told again"


def test_another_object_of_the_same_name_is_another_object() -> None:
    server, world = Server(), World()
    server.things = {"a": thing("a", "first")}
    one = informer(server, world)
    one._list()
    server.things = {"a": thing("a", "second")}
    one._list()
    assert world.told == ["+a", "synced", "-a", "+a", "synced"]


def test_a_watch_goes_on_where_it_was_and_bookmarks_move_it() -> None:
    server, world = Server(), World()
    one = informer(server, world)
    one._list()
    server.watches = [[event("ADDED", thing("a", version=5)), event("BOOKMARK", thing("", version=9))], []]
    one._watch()
    one._watch()
    assert [word for word in server.asked if word.startswith("watch")] == [
        "watch /things 1 75.0",
        "watch /things 9 75.0",
    ]


def test_an_expired_place_is_an_error_with_status_410() -> None:
    server, world = Server(), World()
    one = informer(server, world)
    one._list()
    server.watches = [[event("ERROR", {"code": 410, "message": "too old"})]]
    with pytest.raises(KubeError) as error:
        one._watch()
    assert error.value.status == 410


def test_a_watch_is_left_when_a_list_is_due() -> None:
    server, world = Server(), World()
    one = informer(server, world, relist=0.0)
    one._list()
    server.watches = [[event("ADDED", thing(f"n{i}")) for i in range(10)]]
    one._watch()
    assert len(world.known) == 1


def test_nonsense_on_the_wire_ends_the_watch() -> None:
    server, world = Server(), World()
    one = informer(server, world)
    one._list()
    server.watches = [[b"{half"]]
    with pytest.raises(NoAnswerError, match="invalid JSON"):
        one._watch()


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_watch_loses_the_world_is_right_after_the_next_list(seed: int) -> None:
    """Random changes, of which the watch drops, repeats or breaks off some; the informer's own loop runs."""
    dice, server, world = random.Random(seed), Server(), World()  # noqa: S311
    one = informer(server, world)
    for _ in range(30):
        lines: list[Any] = []
        for _ in range(dice.randrange(6)):
            name = dice.choice("abcdef")
            server.version += 1
            known = server.things.pop(name, None)
            if known is not None and dice.random() < 0.5:
                known["metadata"]["resourceVersion"] = str(server.version)
                news = event("DELETED", known)
            else:
                uid = known["metadata"]["uid"] if known and dice.random() < 0.7 else f"uid-{server.version}"
                server.things[name] = thing(name, uid, server.version)
                news = event("MODIFIED" if known else "ADDED", server.things[name])
            lines += [news] * dice.choice((0, 1, 1, 1, 2))
        broken = dice.random()
        if broken < 0.2:
            lines.append(NoAnswerError("silent"))
        elif broken < 0.4:
            lines.append(event("ERROR", {"code": 410}))
        server.watches = [lines]
        if not one.version:
            one._list()
        try:
            one._watch()
        except (KubeError, NoAnswerError):
            one.version = ""
    one._list()
    assert world.known == {
        name: f"{what['metadata']['uid']}@{what['metadata']['resourceVersion']}" for name, what in server.things.items()
    }


def test_an_object_at_which_the_listener_fails_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Not those of its list, and not those that come later."""

    class Fussy(World):
        def changed(self, thing: Json) -> None:
            if thing["metadata"]["name"].startswith("bad"):
                raise ZeroDivisionError("as nobody foresaw")
            super().changed(thing)

    server, world = Server(), Fussy()
    server.things = {name: thing(name) for name in ("a", "bad-1", "b")}
    server.watches = [[event("ADDED", thing("bad-2")), event("ADDED", thing("c"))]]
    one = informer(server, world)
    stopping = server.lines

    def lines() -> Iterator[bytes]:
        if not server.watches:
            one.stop()
            return
        server.things |= {name: thing(name) for name in ("bad-2", "c")}
        yield from stopping()

    server.lines = lines  # type: ignore[method-assign]
    one.start()
    one._thread.join(60)
    assert not one._thread.is_alive()
    assert world.known.keys() == {"a", "b", "c"}
    assert one.ready.is_set()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError] * 2
