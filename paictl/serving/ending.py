"""A process that serves HTTP, from its beginning to an end in good order, which comes first with SIGTERM, too.

uvicorn ends its own part, and then hands the signal on to whoever listened before it; by default that is nobody, which
kills the process with its lease held and its events untold (but for the first process of a container).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from paictl.errors import PaictlError
from paictl.i18n import text


def serve(server: uvicorn.Server, start: Callable[[], object], stop: Callable[[], object]) -> None:
    """Answer between `start` and `stop` until told to end; at once where the address is taken (`refuse_unserved`)."""
    with _ended_by_sigterm(server):
        start()
        try:
            server.run()
        except SystemExit:
            pass  # it did not begin, and uvicorn has logged why
        finally:
            stop()


def refuse_unserved(server: uvicorn.Server) -> None:
    """Raise `PaictlError` if a server never answered."""
    if not server.started:
        raise PaictlError(
            text("cannot listen on {host}:{port}", host=server.config.host, port=server.config.port),
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
