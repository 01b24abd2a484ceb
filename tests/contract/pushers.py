"""Processes that push and can be killed: forked by one that has loaded everything, so that each takes milliseconds.

Run as a program with a kubeconfig: every line on stdin is ``WORD BASE`` (a base of ``-``: over whatever is there). For
each a child is forked, and its process id is printed before it begins; ``wait PID`` answers with the exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

SERVICES = "services-configuration.yaml"
SECRET = "hunter2-{}-correct-horse"  # noqa: S105 - of a test
WON, LOST = 0, 7
ROOM = 4000
"""Bytes of an object here: the processes are short of time, not of requests."""


def files_of(word: str) -> dict[str, str]:
    """A configuration that says who pushed it, with a secret of its own; by `ROOM` it takes three objects."""
    line = "# " + "x" * 97 + "\n"
    return {
        SERVICES: f"rest-server:\n  jwt-secret: {SECRET.format(word)}\n",
        "layout.yaml": f"machine-list: []\n# {word}\n" + line * 90,
    }


class Pushers:
    """The process that forks, seen from a test."""

    def __init__(self, kubeconfig: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.contract.pushers", str(kubeconfig)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready"

    def start(self, word: str, base: int | None = None) -> int:
        """A process that pushes; its id."""
        return int(self._asked(f"{word} {'-' if base is None else base}"))

    def wait(self, pid: int) -> int:
        """Its exit code, negative if a signal ended it."""
        return int(self._asked(f"wait {pid}"))

    def stop(self) -> None:
        self._process.communicate()

    def _asked(self, words: str) -> str:
        print(words, file=self._stream(self._process.stdin), flush=True)
        return self._answer()

    def _answer(self) -> str:
        return str(self._stream(self._process.stdout).readline()).strip()

    @staticmethod
    def _stream(found: IO[str] | None) -> Any:
        assert found is not None
        return found


def main(kubeconfig: str) -> None:
    """Fork and wait as stdin says."""
    from paictl.cluster.kubernetes import store
    from paictl.cluster.kubernetes.cluster import open_pinned
    from paictl.cluster.kubernetes.connection import pin
    from paictl.config.secrets import sealing

    sealing.COST, store.ROOM = (4, 1, 1), ROOM  # type: ignore[misc]
    pinned = pin("real", kubeconfig, "x")
    open_pinned(pinned)
    _prepared("warm")  # schemas and parsers are read once, here
    _say("ready")
    for line in sys.stdin:
        first, second = line.split()
        if first == "wait":
            _say(os.waitstatus_to_exitcode(os.waitpid(int(second), 0)[1]))
        elif pid := os.fork():
            _say(pid)
        else:
            os._exit(_push(pinned, first, None if second == "-" else int(second)))


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _push(pinned: Any, word: str, base: int | None) -> int:
    from paictl.cluster.interface import ConflictError
    from paictl.cluster.kubernetes.cluster import open_pinned

    sealed, secrets = _prepared(word)
    try:
        open_pinned(pinned).push(sealed, word, base=base, secrets=secrets)
    except ConflictError:
        return LOST
    return WON


def _prepared(word: str) -> tuple[dict[str, str], dict[str, str]]:
    from paictl.config.pushing.push import seal_files, secrets_of

    files = files_of(word)
    sealed = seal_files(files)
    return sealed, secrets_of(files, sealed)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(sys.argv[1])
