"""Pushing packs to machines, by links of any speed: how far each is, and as much time as its size needs.

A pack that a break of the link cut off is resumed by the next run (`playbooks/action_plugins/paictl_push.py`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from paictl.deploy.inventory import Machine
from paictl.deploy.site import Site
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.ansible.run import PlaybookOptions

SLOWEST: Final = 16_000
"""Bytes a second that a link carries at least (128 kbit/s): what takes longer is given up."""
EVERY: Final = 10.0
"""Seconds between two words on how far a machine is; a fast link needs none."""
STALLED: Final = 3600.0
"""Seconds after which it is given up if no machine has got any further."""
PROGRESS: Final = "progress"
"""What such a word is about: that all goes well, where a word about a host is a warning."""
_MIB: Final = 2**20


def push(
    site: Site,
    playbook: str,
    tell: Tell,
    machines: Iterable[Machine],
    packs: Mapping[str, str],
    variables: Mapping[str, Any] | None = None,
) -> None:
    """Run a playbook that pushes `packs` (host → file here); raises `DeployError` with what went wrong where."""
    progress = site.private / "progress"
    shutil.rmtree(progress, ignore_errors=True)  # of an earlier push of this run
    progress.mkdir(mode=0o700)
    reporter = PushProgress(progress, tell, time.monotonic)
    more = {"paictl_packs": dict(packs), "paictl_progress": str(progress), **(variables or {})}
    site.play(playbook, tell, machines, more, replace(patience(packs.values()), stop=reporter))


def patience(packs: Iterable[str]) -> PlaybookOptions:
    """The usual time for a playbook, and that in which all packs pass through one slow link."""
    size = sum(Path(path).stat().st_size for path in packs)
    usual = PlaybookOptions()
    return replace(usual, timeout=usual.timeout + size // SLOWEST)


class PushProgress:
    """Tells how far each machine is, as often as `EVERY`, and ends a playbook that stands still.

    Asked four times a second.
    """

    def __init__(self, folder: Path, tell: Tell, clock: Callable[[], float]) -> None:
        self._folder, self._tell, self._clock = folder, tell, clock
        self._reported, self._known = clock(), dict[str, str]()
        self._moved = clock()

    def __call__(self) -> bool:
        """Report new progress if `EVERY` seconds have passed; True to stop a push that has stalled."""
        if self._clock() - self._reported >= EVERY:
            self._reported = self._clock()
            for path in sorted(self._folder.iterdir()):
                self._look(path)
        if self._clock() - self._moved < STALLED:
            return False
        self._tell(text("no machine has made progress for {hours} h: giving up", hours=round(STALLED / 3600)), "")
        return True

    def _look(self, path: Path) -> None:
        content = "" if path.name.startswith(".") else path.read_text(encoding="utf-8")
        if not content or self._known.get(path.name) == content:
            return
        self._known[path.name], self._moved = content, self._clock()
        sent, size = map(int, content.split())
        if sent < size:
            message = text(
                "{host}: {sent} of {size} MiB pushed", host=path.name, sent=sent // _MIB, size=-(-size // _MIB)
            )
            self._tell(message, PROGRESS)
