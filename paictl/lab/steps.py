"""Playing commands: from the command line that a student types to functions on the `Cluster` interface.

The table (`verbs`) knows the commands that change a cluster and those that labs show most; it takes the same words and
options as the command line, less what concerns output only. Whatever it does not know goes to `Player.other`, which the
command line provides. A test plays every lab both ways and compares the events.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paictl.cluster.interface import Cluster
from paictl.errors import PaictlError
from paictl.lab import verbs
from paictl.lab.errors import LabError
from paictl.lab.journal import Typed, spelled
from paictl.lab.manifest import Act, Lab
from paictl.lab.verbs import Desk

Runner = Callable[[Sequence[str]], Typed]
"""Carries out words that follow ``paictl``."""

Typist = Callable[[str], Typed]
"""Carries out a command line: `Player.play`, or the command line itself."""


@dataclass(frozen=True)
class Player:
    """Types for a student: `open_cluster` finds the cluster anew for each command, as a shell does.

    Files are taken from `folder`; `user` owns the jobs.
    """

    open_cluster: Callable[[], Cluster]
    folder: Path
    user: str
    other: Runner | None = None

    def play(self, command: str) -> Typed:
        """Carry a command line out; a refusal is an outcome, not an exception."""
        words = shlex.split(command)[1:]
        try:
            act = verbs.understood(words)
            if act is not None:
                act(Desk(self.open_cluster(), self.folder, self.user))
                return Typed(spelled(words), 0)
        except PaictlError as error:
            return Typed(spelled(words), int(error.exit_code), str(error), error.hint or "")
        if self.other is None:
            raise PaictlError(f"no step can be {command!r}", hint="lab.verbs knows no such command")
        return self.other(words)


def prepare(lab: Lab, act: Act, folder: Path) -> None:
    """Copy and edit the student's files as an act says; raises `LabError` where an edit finds no place."""
    for name, source in act.copies.items():
        (folder / name).write_bytes((lab.folder / source).read_bytes())
    for edit in act.edits:
        path = folder / edit.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if text.count(edit.find) != 1:
            times = text.count(edit.find)
            raise LabError(
                (
                    f"{edit.find!r} stands {times} times in it, not once",
                    f"{edit.find!r} 出现 {times} 次，应为一次",
                ),
                (
                    "begin again: paictl lab reset, then paictl lab start",
                    "重新开始：paictl lab reset，然后 paictl lab start",
                ),
                where=str(path),
            )
        path.write_text(text.replace(edit.find, edit.write), encoding="utf-8")
