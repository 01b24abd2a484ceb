"""What visitors of tasks' hosts may cost others who send many requests at once, or take no answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from paictl.server.tasks import proxy
from tests.unit.server.test_tasks import LARGE, PATIENCE, Rig, _ends, _head, _opened, _until, common, request, rig

__all__ = ["common", "rig"]


def test_a_stranger_gets_one_answer_on_a_connection(rig: Rig) -> None:
    async def act(port: int) -> bytes:
        stranger = await _opened(port, request() * 400)
        head = await _head(stranger)
        assert head.startswith("HTTP/1.1 401")
        assert "connection: close" in head.lower()
        rest = b""
        with contextlib.suppress(ConnectionResetError):
            rest = await asyncio.wait_for(stranger.read(), PATIENCE)
        return rest

    assert b"HTTP/1.1" not in rig.run(act)


def test_between_two_answers_it_is_the_turn_of_others(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cookie = f"Cookie: {rig.cookie()}"
    refused = request("/", cookie, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
    say, in_a_row, longest = proxy._say, 0, 0

    async def counted(*args: Any) -> None:
        nonlocal in_a_row, longest
        in_a_row += 1
        longest = max(longest, in_a_row)
        await say(*args)

    async def others() -> None:
        nonlocal in_a_row
        while True:
            in_a_row = 0
            await asyncio.sleep(0)

    async def act(port: int) -> bytes:
        waiting = asyncio.ensure_future(others())
        visitor = await _opened(port, request("/", cookie) + refused * 100)
        answers = b""
        while answers.count(b"HTTP/1.1 403") < 100:
            answers += await asyncio.wait_for(visitor.read(1 << 16), PATIENCE)
        waiting.cancel()
        return answers

    monkeypatch.setattr(proxy, "_say", counted)
    rig.run(act)
    assert longest <= 2


def test_a_visitor_who_takes_no_answer_does_not_keep_a_place(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy, "SILENT", 2.0)
    monkeypatch.setattr(proxy, "CONNECTIONS", 1)

    async def act(port: int) -> bytes:
        idle = await _opened(port, request("/large", f"Cookie: {rig.cookie()}"))
        assert "200" in await _head(idle)
        assert await _ends(await _opened(port, request())), "there is no room"
        await _until(lambda: not rig.proxy._visits)
        assert "401" in await _head(await _opened(port, request()))
        taken = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := await asyncio.wait_for(idle.read(1 << 20), PATIENCE):
                taken += len(piece)
        return b"%d" % taken

    assert int(rig.run(act)) < LARGE
