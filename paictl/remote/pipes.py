"""The ends of a command that runs elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from paictl.frozen import frozen


@frozen
class Pipes:
    """Where the output of a command goes, and its input comes from.

    `read` gives what it is to be sent, None while there is nothing, ``b""`` at the end; without it there is no input.
    With a `terminal` it believes that it talks to a person, and all its output goes to `out`.
    """

    out: Callable[[bytes], object]
    err: Callable[[bytes], object]
    read: Callable[[], bytes | None] | None = None
    terminal: bool = False
