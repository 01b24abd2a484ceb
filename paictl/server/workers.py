"""Threads in which the cluster is asked, each with a connection of its own; no more of them, and no longer a queue."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from paictl.cluster.interface import Cluster
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.server.calls import ApiError

T = TypeVar("T")

THREADS: Final = 8
QUEUE: Final = 128
"""Requests that wait for a thread; further ones are refused as busy."""
PATIENCE: Final = 60.0
"""Seconds in which the cluster has to answer, those in the queue included."""
SLOW_EACH: Final = 2
"""Slow questions of one account that are under way at once; further ones wait for their turn."""
TURNS_EACH: Final = 16
"""Slow questions of one account that wait for their turn. If `QUEUE` of all accounts wait, one of an account may."""
SPARE: Final = 2
"""Threads that slow questions leave to the others, whoever asks them."""
DIALS: Final = 32
"""Threads in which connections to tasks are made."""
DIALS_EACH: Final = 12
"""Such connections of one account that may be under way at once: two pages, as browsers load them."""


class Elsewhere(Exception):  # noqa: N818 - not an error
    """Raised by a question that continues in the threads for connections to tasks, for an account."""

    def __init__(self, account: str, question: Callable[[Cluster], object]) -> None:
        super().__init__(account)
        self.account = account
        self.question = question


class _Threads:
    """Some threads, and the questions that wait for them."""

    def __init__(
        self, connect: Callable[[], Cluster], stamp: Callable[[], object], threads: int, name: str = "paictl-serve"
    ) -> None:
        self._connect = connect
        self._stamp = stamp
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(threads, name)
        self._most = threads + QUEUE
        self._busy: Counter[str] = Counter()
        self._slow_most = max(1, threads - SPARE)
        self._turns: list[tuple[str, asyncio.Future[None]]] = []
        self._served: dict[str, int] = {}
        """Accounts that wait or are under way: how many turns had been given when each got its last one, or came."""
        self._given = 0
        self._pending: list[tuple[str, _Progress]] = []
        """Questions that are not slow, and who sent each; the oldest first."""

    async def ask(
        self, question: Callable[[Cluster], T], account: str = "", most: int | None = None, sender: str = ""
    ) -> T:
        """What a thread answers; raises `ApiError` if it does not in time, or `most` of an account are under way.

        If too many wait, the newest question makes room of the sender who has most of them, unless that is this one.
        """
        if most is not None and self._busy[account] >= most:
            raise busy()
        if self._busy.total() >= self._most and not self._make_room(sender):
            raise busy()
        self._busy[account] += 1
        async with _patience() as progress:
            entry = (sender, progress)
            self._pending.append(entry)
            try:
                return await self._counted(question, account, progress)
            finally:
                self._pending.remove(entry)

    def _make_room(self, sender: str) -> bool:
        """Drop a question that no thread has taken up; False if nobody has more of them than the sender."""
        waiting = [(who, progress) for who, progress in self._pending if progress.waits]
        numbers = Counter(who for who, _ in waiting)
        most = max(numbers, key=lambda who: numbers[who], default=sender)
        if numbers[most] <= numbers[sender] + 1:
            return False
        return next(progress for who, progress in reversed(waiting) if who == most).drop()

    async def in_turn(self, question: Callable[[Cluster], T], account: str) -> T:
        """The same for a slow question of an account, after its turn has come, both within `PATIENCE`.

        What nobody waits for any more counts as long as its thread works on it. Raises `ApiError` as `ask` does, and
        if too many of the account wait.
        """
        async with _patience() as progress:
            await self._turn(account)
            return await self._counted(question, account, progress)

    async def _counted(self, question: Callable[[Cluster], T], account: str, progress: _Progress) -> T:
        """What a thread answers to a question that is among the busy ones already, until the thread is done."""

        def begun(cluster: Cluster) -> T:
            progress.begun = True  # it may end with a `TimeoutError` of its own, after it has changed something
            return question(cluster)

        try:
            future = self._pool.submit(self._answer, begun)
        except RuntimeError:  # closed meanwhile, or no further thread can be made
            self._free(account)
            raise busy() from None
        future.add_done_callback(self._done(asyncio.get_running_loop(), account))
        progress.future = future
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if progress.dropped:
                raise busy() from None
            progress.begun = not future.cancel()  # what no thread has taken up, none will; one may be connecting yet
            raise

    async def _turn(self, account: str) -> None:
        """Count a slow question of an account as busy, once there is room for it.

        Whoever makes room gives it to those in line, so that nobody who comes later is faster: while somebody of an
        account waits, there is no room for the account. Accounts take turns: whoever waits with many questions keeps
        nobody waiting who has one. Whoever comes joins at the end of the round: accounts that come again and again with
        one question would otherwise go before one that waits with its second.
        """
        if self._has_room(account):
            self._begin(account)
            return
        waiting = sum(other == account for other, _ in self._turns)
        if waiting >= TURNS_EACH or (waiting and len(self._turns) >= QUEUE):
            raise busy()
        self._served.setdefault(account, self._given)
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append((account, come))
        try:
            await come
        except asyncio.CancelledError:
            if not come.cancelled():  # its turn came just as it was given up
                self._free(account)
            raise
        finally:
            if (account, come) in self._turns:
                self._turns.remove((account, come))
            self._forget(account)

    def _has_room(self, account: str) -> bool:
        slow = sum(number for other, number in self._busy.items() if other)
        return self._busy[account] < SLOW_EACH and slow < self._slow_most

    def _free(self, account: str) -> None:
        """Count a question no longer, and give its room to those in line."""
        self._busy[account] -= 1
        if not self._busy[account]:
            del self._busy[account]
        while turn := self._next():
            self._turns.remove(turn)
            self._begin(turn[0])
            turn[1].set_result(None)
        self._forget(account)

    def _forget(self, account: str) -> None:
        if account not in self._busy and all(other != account for other, _ in self._turns):
            self._served.pop(account, None)

    def _next(self) -> tuple[str, asyncio.Future[None]] | None:
        """The oldest question of the account that got a turn longest ago, of those that may have one now."""
        may = [turn for turn in self._turns if not turn[1].done() and self._has_room(turn[0])]
        return min(may, key=lambda turn: self._served[turn[0]], default=None)

    def _begin(self, account: str) -> None:
        self._busy[account] += 1
        self._given += 1
        self._served[account] = self._given

    def warm(self, question: Callable[[Cluster], object]) -> None:
        """Ask something whose answer is remembered, so that the first visitor does not have to wait for it."""
        with contextlib.suppress(PaictlError):  # whoever asks next is told
            self._pool.submit(self._answer, question).result()

    def _done(self, loop: asyncio.AbstractEventLoop, account: str) -> Callable[[object], None]:
        return lambda _: None if loop.is_closed() else _quietly(loop, lambda: self._free(account))

    def _answer(self, question: Callable[[Cluster], T]) -> T:
        stamp = self._stamp()
        if getattr(self._local, "stamp", self) != stamp:
            self._local.cluster = self._connect()
            self._local.stamp = stamp
        return question(self._local.cluster)

    def close(self) -> None:
        """Wait for what is being done, and forget what waits."""
        self._pool.shutdown(cancel_futures=True)


class Workers:
    """Asks a cluster in threads; `stamp` changes when another cluster takes the place of this one.

    Connections to tasks are made in threads of their own: a dead node lets those wait, and not the portal.
    """

    def __init__(
        self, connect: Callable[[], Cluster], stamp: Callable[[], object] = lambda: None, threads: int = THREADS
    ) -> None:
        self._threads = _Threads(connect, stamp, threads)
        self._dials = _Threads(connect, stamp, DIALS, "paictl-dial")

    async def ask(self, question: Callable[[Cluster], T], sender: str) -> T:
        """What a thread answers. Raises `ApiError` if there is no room or no answer in time.

        `sender` is whom the question counts for while it waits (`connections.subscriber`).
        """
        try:
            return await self._threads.ask(question, sender=sender)
        except Elsewhere as more:
            return cast("T", await self.dial(more.account, more.question))

    async def in_turn(self, account: str, question: Callable[[Cluster], T]) -> T:
        """The same for a question that takes long: one account, or all of them, cannot take all threads with such."""
        return await self._threads.in_turn(question, account)

    async def dial(self, account: str, question: Callable[[Cluster], T]) -> T:
        """The same for a question that connects to a task; raises `ApiError` if an account has too many under way."""
        return await self._dials.ask(question, account, DIALS_EACH)

    def warm(self, question: Callable[[Cluster], object]) -> None:
        """Ask something whose answer is remembered, so that the first visitor does not have to wait for it."""
        self._threads.warm(question)

    def close(self) -> None:
        """Wait for what is being done, and forget what waits."""
        self._threads.close()
        self._dials.close()


@dataclass(eq=False)
class _Progress:
    """How far a question is."""

    begun: bool = False
    """Whether a thread has taken it up, or will although it was given up."""
    dropped: bool = False
    """Whether it has made room for another."""
    future: Future[Any] | None = None

    @property
    def waits(self) -> bool:
        """Whether no thread has taken it up yet."""
        return self.future is not None and not self.future.running() and not self.future.done()

    def drop(self) -> bool:
        """Have it refused as busy; False if a thread was faster."""
        self.dropped = self.future is not None and self.future.cancel()
        return self.dropped


@contextlib.asynccontextmanager
async def _patience() -> AsyncIterator[_Progress]:
    """Give up after `PATIENCE`, with an `ApiError` that says whether something may have been changed."""
    progress = _Progress()
    try:
        async with asyncio.timeout(PATIENCE):
            yield progress
    except TimeoutError:
        message = (
            text("the cluster did not answer within {seconds:g} s: check whether the change was made", seconds=PATIENCE)
            if progress.begun
            else text("the server had no time for this within {seconds:g} s: nothing was changed", seconds=PATIENCE)
        )
        raise ApiError(504, "TimeoutError", message) from None


def _quietly(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """Let the loop act, unless it has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        return


def busy() -> ApiError:
    """The error for a request that there is no room for."""
    error = ApiError(503, "BusyError", text("the server is busy: try again later"))
    error.headers["Retry-After"] = "1"
    return error
