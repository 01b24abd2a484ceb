"""A stranger who keeps as many unfinished requests open as a server takes, and opens each anew when it is ended."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def unfinished(port: int, data: bytes, number: int) -> Iterator[None]:
    """Send `data` on `number` connections and never the rest, until the block ends; it begins when all were opened."""
    stop, full = threading.Event(), threading.Event()
    opened: dict[int, socket.socket] = {}
    poll = select.poll()

    def send() -> None:
        while not stop.is_set():
            while len(opened) < number and not stop.is_set():
                with contextlib.suppress(OSError):
                    raw = socket.create_connection(("127.0.0.1", port), timeout=5)
                    opened[raw.fileno()] = raw
                    poll.register(raw, select.POLLIN | select.POLLHUP)
                    raw.sendall(data)
            full.set()
            for ended, _ in poll.poll(20):
                poll.unregister(ended)
                opened.pop(ended).close()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        assert full.wait(60)
        yield
    finally:
        stop.set()
        thread.join(30)
        for raw in opened.values():
            raw.close()
