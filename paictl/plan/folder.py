"""The folder of a run: the request and the events in order, for people, for resuming, for support.

`runs/ID/` holds ``run.json`` (kind, request, a fingerprint of it) and ``events.jsonl``. Only the owner can read it, and
the secrets that the run was told never get into it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.events import Event, PhaseDone, PhaseSkipped, RunEnded, from_data, to_data

RUN: Final = "run.json"
EVENTS: Final = "events.jsonl"
STARS: Final = "******"
"""What stands for a secret."""


@frozen
class RunFolder:
    """One run; `secrets` are values that are starred out of all that is written."""

    path: Path
    secrets: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The name of the run."""
        return self.path.name

    def listener(self, now: Callable[[], datetime]) -> Callable[[Event], None]:
        """Who appends each event, with the instant that `now` gives, and sees to it that it is on the disk."""

        def note(event: Event) -> None:
            line = json.dumps({"at": now().isoformat(), **_starred(to_data(event), self.secrets)}, ensure_ascii=False)
            with (self.path / EVENTS).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())

        return note

    def events(self) -> Iterator[Event]:
        """The events that were noted; a last line that a kill cut short does not count."""
        path = self.path / EVENTS
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                data = json.loads(line)
                data.pop("at", None)
                yield from_data(data)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue

    def done(self) -> frozenset[str]:
        """The phases that need not be done again when the run is resumed."""
        return frozenset(event.phase for event in self.events() if isinstance(event, PhaseDone | PhaseSkipped))

    @property
    def finished(self) -> bool:
        """Whether all of it was done."""
        return any(isinstance(event, RunEnded) and event.ok for event in self.events())


def begin_run(
    root: Path, kind: str, request: Mapping[str, Any], at: datetime, secrets: Collection[str] = ()
) -> RunFolder:
    """Make the folder of a new run under `root`; raises `PaictlError` if it cannot be made."""
    hidden = frozenset(secret for secret in secrets if secret)
    stamp = at.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    shown = _starred(request, hidden)
    data = {"kind": kind, "at": at.isoformat(), "fingerprint": fingerprint(kind, shown), "wish": shown}
    written = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    for number in range(1000):
        path = root / f"{stamp}-{kind}{f'-{number}' if number else ''}"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            message = text("cannot be created: {reason}", reason=error.strerror)
            raise PaictlError(message, where=str(path), hint="check free space and permissions") from None
        write_together(path, {RUN: written}, mode=0o600)
        (path / EVENTS).touch(mode=0o600)
        return RunFolder(path, hidden)
    raise PaictlError("too many runs were started within this second", where=str(root), hint="try again")


def unfinished_run(
    root: Path, kind: str, request: Mapping[str, Any], secrets: Collection[str] = ()
) -> RunFolder | None:
    """The newest run of the same kind and request, if it did not get to its end; that is the one to resume."""
    hidden = frozenset(secret for secret in secrets if secret)
    wanted = fingerprint(kind, _starred(request, hidden))
    for path in sorted(root.glob(f"*-{kind}*"), reverse=True) if root.is_dir() else ():
        try:
            same = json.loads((path / RUN).read_text(encoding="utf-8"))["fingerprint"] == wanted
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if same:
            folder = RunFolder(path, hidden)
            return None if folder.finished else folder
    return None


def forget_runs(root: Path, kind: str, *, keep: int) -> None:
    """Remove all but the newest runs of a kind (and of those whose names begin so), as far as can be."""
    paths = sorted(root.glob(f"*-{kind}*")) if root.is_dir() else []
    for path in paths[: len(paths) - keep]:
        shutil.rmtree(path, ignore_errors=True)


def fingerprint(kind: str, request: Mapping[str, Any]) -> str:
    """The same for the same request, which holds no secret any more: a short one could be guessed from its digest."""
    data = json.dumps([kind, request], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(data.encode()).hexdigest()


def _starred(value: Any, secrets: frozenset[str]) -> Any:
    """A value of JSON without the secrets, wherever they stand in a text."""
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):
            value = value.replace(secret, STARS)
        return value
    if isinstance(value, Mapping):
        return {_starred(key, secrets): _starred(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_starred(item, secrets) for item in value]
    return value
