"""`paictl job open`: a port of a task as a port of this machine, for its browser."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Final

from paictl.cli import console
from paictl.cluster.interface import Jobs, TaskPlace
from paictl.errors import PaictlError
from paictl.i18n import text

HOST: Final = "127.0.0.1"
_PIECE: Final = 1 << 16
_MOST: Final = 64
"""Connections at a time; a browser has six."""


def listener(port: int | None, wanted: int) -> socket.socket:
    """A socket that listens on this machine: on `port` (0: any), without one on the task's own if that is free.

    Raises `PaictlError` for a port that cannot be had.
    """
    for number in (wanted, 0) if port is None else (port,):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, number))
        except OSError as error:
            made.close()
            reason = error.strerror or str(error)
        else:
            made.listen()
            return made
    raise PaictlError(
        text("cannot listen on {host}:{port}: {reason}", host=HOST, port=port or wanted, reason=reason),
        hint=text("choose another port of this machine: --listen PORT, 0 for any"),
    )


def serve(cluster: Jobs, key: str, task: TaskPlace, port: int, local: socket.socket, *, browser: bool) -> None:
    """Hand on every connection to the port of the task, until Ctrl-C; the address is printed."""
    here = f"http://{HOST}:{local.getsockname()[1]}/"
    console.write(here)
    console.info(text("port {port} of task {task} of {job}; press Ctrl-C to close it", port=port, task=task, job=key))
    if browser:
        webbrowser.open(here)
    room = threading.Semaphore(_MOST)
    with local:
        while True:
            ours, _ = local.accept()
            room.acquire()
            threading.Thread(target=_handed, args=(cluster, key, task, port, ours, room.release), daemon=True).start()


def _handed(
    cluster: Jobs, key: str, task: TaskPlace, port: int, ours: socket.socket, done: Callable[[], None]
) -> None:  # fmt: skip
    try:
        theirs = cluster.dial(key, task, port)
    except PaictlError as error:
        console.warning(error.message)
        ours.close()
        done()
        return
    back = threading.Thread(target=_copy, args=(theirs, ours), daemon=True)
    back.start()
    _copy(ours, theirs)
    back.join()
    ours.close()
    theirs.close()
    done()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on until `source` ends; then nothing more is sent to `target`, nor read from where it came."""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
