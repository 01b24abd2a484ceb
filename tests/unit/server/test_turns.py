"""Who gets a thread when: turns of slow questions, by account, with threads that finish when the test says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paictl.server import workers as module
from paictl.server.calls import ApiError
from paictl.server.workers import PATIENCE, QUEUE, SLOW_EACH, SPARE, TURNS_EACH, Workers

GUARD: Final = 30
"""Seconds after which a test fails instead of hanging."""


class Work(Future[object]):
    """A question in a thread."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.set_running_or_notify_cancel()


class Pool:
    """Threads of which each works until the test says that it is done."""

    def __init__(self) -> None:
        self.begun: list[Work] = []
        self.closed = False

    def submit(self, answer: Callable[[Any], object], question: Callable[[Any], object]) -> Work:
        if self.closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Work(str(answer(question)))
        self.begun.append(future)
        return future

    def shutdown(self, **_: object) -> None:
        self.closed = True

    def names(self) -> list[str]:
        return [future.name for future in self.begun]

    def finish(self, which: int = 0) -> None:
        """One of those that work is done."""
        working = [future for future in self.begun if not future.done()]
        if working:
            found = working[which % len(working)]
            found.set_result(found.name)


@dataclass
class Line:
    """Questions of accounts, in a loop whose clock the test moves on."""

    workers: Workers
    pool: Pool
    asked: list[tuple[str, asyncio.Task[str]]] = field(default_factory=list)

    def ask(self, account: str) -> asyncio.Task[str]:
        name = f"{account} {len(self.asked)}"
        task = asyncio.ensure_future(self.workers.in_turn(account, lambda _: name))
        self.asked.append((name, task))
        return task

    def of(self, account: str) -> list[str]:
        """The questions of an account that were begun, in this order."""
        return [name for name in self.pool.names() if name.split()[0] == account]

    def working(self) -> list[str]:
        """The account of each question that a thread works on."""
        pairs = zip(self.pool.names(), self.pool.begun, strict=True)
        return [name.split()[0] for name, future in pairs if not future.done()]

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def finish_all(self) -> None:
        await self.settle()
        while self.working():
            self.pool.finish()
            await self.settle()

    def statuses(self, tasks: list[asyncio.Task[str]]) -> list[int]:
        """What has come of questions: 0 for those still under way."""
        return [
            0 if not task.done() else error.status if isinstance(error := task.exception(), ApiError) else 200
            for task in tasks
        ]


def in_line(act: Callable[[Line], Awaitable[None]]) -> None:
    """Run a test in a loop of its own."""
    pools: list[Pool] = []

    def made(*_: object) -> Pool:
        pools.append(Pool())
        return pools[-1]

    async def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "ThreadPoolExecutor", made)
            workers = Workers(lambda: None)  # type: ignore[arg-type,return-value]
        await asyncio.wait_for(act(Line(workers, pools[0])), GUARD + 2 * PATIENCE)  # the test may move the clock on

    # not the loop of uvloop, which a server in another test may have made the usual one: its clock cannot be moved
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(run())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time of every loop on."""
    late = 0.0
    real = asyncio.BaseEventLoop.time

    def move(seconds: float) -> None:
        nonlocal late
        late += seconds

    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda self: real(self) + late)
    return move


# --- room for each account


def test_one_account_that_asks_without_end_leaves_room_for_the_others() -> None:
    async def act(line: Line) -> None:
        anns = [line.ask("ann") for _ in range(QUEUE + 2)]
        await line.settle()
        assert line.statuses(anns) == [0] * (SLOW_EACH + TURNS_EACH) + [503] * (QUEUE - SLOW_EACH - TURNS_EACH + 2)
        bobs = [line.ask("bob") for _ in range(SLOW_EACH + TURNS_EACH)]
        await line.settle()
        assert line.statuses(bobs) == [0] * len(bobs)
        await line.finish_all()
        assert line.statuses(bobs) == [200] * len(bobs)

    in_line(act)


def test_an_account_may_wait_with_one_question_although_the_others_fill_the_queue() -> None:
    async def act(line: Line) -> None:
        for number in range(QUEUE):
            for _ in range(SLOW_EACH + TURNS_EACH):
                line.ask(f"other{number}")
        new = [line.ask("bob"), line.ask("bob")]
        await line.settle()
        assert line.statuses(new) == [0, 503]
        await line.finish_all()
        assert line.statuses(new) == [200, 503]

    in_line(act)


def test_accounts_take_turns_however_many_questions_each_has() -> None:
    async def act(line: Line) -> None:
        greedy = [f"greedy{number}" for number in range(4)]
        for account in greedy:
            for _ in range(SLOW_EACH + TURNS_EACH):
                line.ask(account)
        line.ask("bob"), line.ask("bob"), line.ask("ann")
        for _ in range(7):
            await line.settle()
            line.pool.finish()
        await line.settle()
        assert len(line.of("bob")) + len(line.of("ann")) >= 2, "not after 60 questions of those who ask without end"
        await line.finish_all()
        assert line.workers._threads._served == {}

    in_line(act)


# --- patience


def test_who_waits_for_a_turn_is_answered_as_late_as_who_waits_for_the_cluster(clock: Callable[[float], None]) -> None:
    async def act(line: Line) -> None:
        tasks = [line.ask("ann") for _ in range(SLOW_EACH + TURNS_EACH)]
        await line.settle()
        clock(PATIENCE + 1)
        await line.settle()
        assert line.statuses(tasks) == [504] * len(tasks)
        said = [str(task.exception()) for task in tasks]
        assert ["check whether the change was made" in words for words in said] == [True] * SLOW_EACH + [
            False
        ] * TURNS_EACH
        assert all("nothing was changed" in words for words in said[SLOW_EACH:])
        again = [line.ask("ann") for _ in range(TURNS_EACH)]  # nobody is in line any more
        await line.settle()
        assert line.statuses(again) == [0] * TURNS_EACH
        assert len(line.of("ann")) == SLOW_EACH  # the threads still work on the first ones
        await line.finish_all()
        assert line.statuses(again) == [200] * TURNS_EACH

    in_line(act)


def test_the_wait_and_the_answer_have_one_deadline(clock: Callable[[float], None]) -> None:
    async def act(line: Line) -> None:
        tasks = [line.ask("ann") for _ in range(SLOW_EACH + 1)]
        await line.settle()
        clock(PATIENCE - 10)
        line.pool.finish()
        await line.settle()
        assert line.of("ann") == [f"ann {number}" for number in range(SLOW_EACH + 1)]
        assert line.statuses(tasks) == [200, *[0] * SLOW_EACH]
        clock(11)
        await line.settle()
        assert line.statuses(tasks) == [200, *[504] * SLOW_EACH]
        await line.finish_all()

    in_line(act)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("connects", "words"), [(True, "check whether the change was made"), (False, "nothing was changed")]
)
def test_a_question_that_times_out_by_itself_may_have_changed_something(slow: bool, connects: bool, words: str) -> None:
    def times_out(*_: object) -> Any:
        raise TimeoutError

    async def act() -> None:
        workers = Workers((lambda: None) if connects else times_out, threads=1)  # type: ignore[arg-type,return-value]
        asking = workers.in_turn("ann", times_out) if slow else workers.ask(times_out, "ann")
        with pytest.raises(ApiError) as refused:
            await asking
        assert refused.value.status == 504
        assert words in refused.value.message
        workers.close()

    asyncio.run(act())


# --- questions that are not slow


def test_a_full_queue_makes_room_for_whoever_has_less_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE", 4)
    begun, gate = threading.Event(), threading.Event()

    def works(_: object) -> str:
        begun.set()
        gate.wait(GUARD)
        return "works"

    async def act() -> None:
        workers = Workers(lambda: None, threads=1)  # type: ignore[arg-type,return-value]
        first = asyncio.ensure_future(workers.ask(works, "greedy"))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        greedy = [asyncio.ensure_future(workers.ask(lambda _: "greedy", "greedy")) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError):
            await workers.ask(lambda _: "no", "greedy")
        bob = asyncio.ensure_future(workers.ask(lambda _: "bob", "bob"))
        ann = asyncio.ensure_future(workers.ask(lambda _: "ann", "ann"))
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(ApiError):
            await workers.ask(lambda _: "no", "bob")  # he has half as many as the one with most
        gate.set()
        assert list(await asyncio.gather(first, bob, ann)) == ["works", "bob", "ann"]
        left = await asyncio.gather(*greedy, return_exceptions=True)
        assert [entry if isinstance(entry, str) else type(entry) for entry in left] == ["greedy"] * 2 + [ApiError] * 2
        assert workers._threads._pending == []
        workers.close()

    asyncio.run(act())


# --- nothing is lost


@pytest.mark.parametrize("steps", range(4))
def test_a_turn_that_comes_as_its_client_goes_is_given_to_the_next(steps: int) -> None:
    """The client goes so many steps of the loop after a thread has become free."""

    async def act(line: Line) -> None:
        tasks = [line.ask("ann") for _ in range(SLOW_EACH + 2)]
        await line.settle()
        line.pool.finish()
        for _ in range(steps):
            await asyncio.sleep(0)
        tasks[SLOW_EACH].cancel()
        await line.settle()
        assert len(line.working()) == SLOW_EACH
        line.pool.finish()
        await line.settle()
        assert line.of("ann")[-1] == f"ann {SLOW_EACH + 1}"
        await line.finish_all()

    in_line(act)


def test_closing_refuses_those_in_line() -> None:
    async def act(line: Line) -> None:
        tasks = [line.ask("ann") for _ in range(SLOW_EACH + 2)]
        await line.settle()
        line.workers.close()
        await line.finish_all()
        assert line.statuses(tasks) == [*[200] * SLOW_EACH, 503, 503]

    in_line(act)


def test_a_loop_that_ends_while_somebody_is_in_line_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async def act(line: Line) -> None:
        for _ in range(SLOW_EACH + 2):
            line.ask("ann")
        await line.settle()
        line.pool.finish()

    in_line(act)
    assert capsys.readouterr().err == ""


STEP: Final = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from([0, 0, 0, 1, 2, 3])),
    st.tuples(st.just("finish"), st.integers(0, 7)),
    st.tuples(st.just("leave"), st.integers(0, 60)),
    st.tuples(st.just("pass"), st.integers(1, 3)),
)


@example(steps=[("ask", 0)] * (SLOW_EACH + 1) + [("pass", 3), ("finish", 0), ("ask", 0)])  # came as there was room
@given(steps=st.lists(STEP, max_size=60))
def test_each_account_is_served_in_the_order_in_which_it_asked(steps: list[tuple[str, int]]) -> None:
    """Whatever is asked, done and given up: in order, within the bounds, and no thread idle for want of a turn."""

    async def act(line: Line) -> None:
        for what, number in steps:
            if what == "ask":
                line.ask(f"user{number}")
            elif what == "finish":
                line.pool.finish(number)
            elif what == "leave" and line.asked:
                line.asked[number % len(line.asked)][1].cancel()
            else:
                for _ in range(number):
                    await asyncio.sleep(0)
            within_bounds(line)
        await line.settle()
        nobody_waits_for_nothing(line)
        await line.finish_all()
        for account in {name.split()[0] for name, _ in line.asked}:
            numbers = [int(name.split()[1]) for name in line.of(account)]
            assert numbers == sorted(numbers)
        assert all(task.done() for _, task in line.asked)
        new = [line.ask(f"new{number}") for number in range(8)]  # all the room is there again
        await line.settle()
        assert len(line.working()) == module.THREADS - SPARE
        await line.finish_all()
        assert line.statuses(new) == [200] * 8

    in_line(act)


SCHEDULE: Final = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 9)),
        st.tuples(st.just("ask"), st.integers(0, 9)),
        st.tuples(st.just("finish"), st.integers(0, 7)),
        st.tuples(st.just("finish"), st.integers(0, 7)),
        st.tuples(st.just("leave"), st.integers(0, 60)),
    ),
    max_size=80,
)
# user0 waits with its second question, and the others come again as soon as they are answered
RETURNING: Final = [
    *[("ask", number) for number in (0, 1, 2, 3, 4, 5, 0, 6, 7)],
    *[step for number in (1, 2, 3, 4, 5, 6, 7) * 4 for step in (("finish", 1), ("ask", number))],
]


@example(steps=RETURNING)
@example(steps=[*[("ask", number) for number in (1, 1, 2, 2, 3, 3, 1, 1, 1, 0)], *[("finish", 0)] * 4])  # one asks much
@example(steps=[*[("ask", number) for number in range(7)], ("leave", 6)])  # one leaves without a turn
@given(steps=SCHEDULE)
def test_nobody_who_waits_is_passed_twice_by_another_account(steps: list[tuple[str, int]]) -> None:
    """While a question is its account's next, each other account passes it at most once, and none that came later.

    So it waits for no more turns than there were accounts. What an account waits for because `SLOW_EACH` of its own
    are under way does not count.
    """

    async def act(line: Line) -> None:
        waits = Waits(line)
        for what, number in steps:
            if what == "ask":
                line.ask(f"user{number}")
            elif what == "finish":
                line.pool.finish(number)
            elif line.asked:
                line.asked[number % len(line.asked)][1].cancel()
            await line.settle()
            waits.check()
        await line.finish_all()
        assert line.workers._threads._served == {}

    in_line(act)


class Waits:
    """The next question of each account that waits, with the accounts that may still go before it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.ahead: dict[str, set[str]] = {}
        self.begun = 0

    def check(self) -> None:
        """To be called after each step, of which each gives one turn at most."""
        names = self.line.pool.names()
        turns, self.begun = [name.split()[0] for name in names[self.begun :]], len(names)
        assert len(turns) <= 1
        working = self.line.working()
        waiting = [name for name, task in self.line.asked if not task.done() and name not in names]
        heads = {name.split()[0]: name for name in reversed(waiting)}
        for account, head in heads.items():
            ahead = self.ahead.get(head)
            if ahead is not None and working.count(account) < SLOW_EACH:
                for other in turns:
                    assert other in ahead, f"{other} goes before {head}"
                    ahead.discard(other)
        present = set(working) | set(heads)
        self.ahead = {head: self.ahead.get(head, present - {account}) for account, head in heads.items()}


def within_bounds(line: Line) -> None:
    working = line.working()
    assert len(working) <= module.THREADS - SPARE
    assert all(working.count(account) <= SLOW_EACH for account in working)


def nobody_waits_for_nothing(line: Line) -> None:
    working, begun = line.working(), set(line.pool.names())
    waiting = {name.split()[0] for name, task in line.asked if not task.done() and name not in begun}
    if len(working) < module.THREADS - SPARE:
        assert all(working.count(account) == SLOW_EACH for account in waiting)
