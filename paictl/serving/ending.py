"""A process that serves HTTP, from its beginning to an end in good order, which comes first with SIGTERM, too.

uvicorn ends its own part, and then hands the signal on to whoever listened before it; by default that is nobody, which
kills the process with its lease held and its events untold (but for the first process of a container).
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from paictl.errors import PaictlError
from paictl.i18n import text


def serve(server: uvicorn.Server, start: Callable[[], object], stop: Callable[[], object]) -> str:
    """Answer between `start` and `stop` until told to end; why it never did, if it could not listen, else empty."""
    with _ended_by_sigterm(server), refusals() as reasons:
        start()
        try:
            server.run()
        except SystemExit:
            pass  # it did not begin
        finally:
            stop()
    return "".join(reasons[:1])


@contextmanager
def refusals() -> Iterator[list[str]]:
    """Why servers cannot listen, while the block runs; uvicorn only logs it."""
    reasons: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        error = record.msg
        if isinstance(error, OSError):
            number = error.errno or 0  # those of the resolver are negative
            reasons.append(os.strerror(number) if number > 0 else error.strerror or str(error))
        return not isinstance(error, OSError)

    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(keep)
    try:
        yield reasons
    finally:
        logger.removeFilter(keep)


def refuse_unserved(server: uvicorn.Server, reason: str) -> None:
    """Raise `PaictlError` if a server never answered."""
    if not server.started:
        raise cannot_listen(server.config.host, server.config.port, reason)


def cannot_listen(host: str, port: int, reason: str) -> PaictlError:
    """The error for an address that a server cannot have; the reason may be unknown, and is empty then."""
    where = text("cannot listen on {host}:{port}", host=host, port=port)
    return PaictlError(
        text("cannot listen on {host}:{port}: {reason}", host=host, port=port, reason=reason) if reason else where,
        hint="choose another with --listen HOST:PORT",
    )


@contextmanager
def _ended_by_sigterm(server: uvicorn.Server) -> Iterator[None]:
    """Inside the block SIGTERM ends the server and no more, also before the server listens to signals by itself."""
    if threading.current_thread() is not threading.main_thread():  # others cannot listen
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
