"""SIGTERM of a process that serves HTTP: the end in good order comes first.

uvicorn ends its own part, and then hands the signal on to whoever listened before it; by default that is nobody, which
kills the process with its lease held and its events untold (but for the first process of a container).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


@contextmanager
def ended_by_sigterm(server: uvicorn.Server) -> Iterator[None]:
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
