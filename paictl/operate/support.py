"""What someone else needs to investigate a problem with a cluster: all that its ports tell, and no secret."""

from __future__ import annotations

import io
import json
import platform
import re
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final

from paictl import __version__
from paictl.cluster.capabilities import (
    LINES,
    SECONDS,
    Diagnosed,
    Diagnostics,
    LogLimits,
    Recorded,
    SchedulerShown,
    Tell,
)
from paictl.cluster.interface import Cluster, JobState, JobView, Port, TaskPlace
from paictl.cluster.picture import picture_data
from paictl.config.secrets.cleaning import Cleaner
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.replay import FOLDER, RECORD, recording
from paictl.operate.status import summary

MOST_EVENTS: Final = 20_000
"""The newest events of a cluster that are taken along."""
MOST_EXPLAINED: Final = 50
"""Waiting jobs that are explained."""
MOST_OUTPUT: Final = 1 << 20
"""The newest bytes of what a task has written."""
MOST_RUNS: Final = 5
"""The newest runs of `deploy` and `service` from this machine, and as many reports of internal errors."""
_RUN_FILES: Final = ("run.json", "events.jsonl")
_SEALED: Final = re.compile(r"sealed:[\w:+/=-]+")
"""A secret as configuration is stored: a slow hash of it, from which an attacker with time could guess a weak one."""


@frozen
class SupportBundle:
    """Texts by their path in the archive; `missing` says of what could not be had why."""

    files: Mapping[str, str]
    missing: Mapping[str, str]


@frozen
class BundleLimits:
    """How long collecting takes at most, how much of each log is taken, and the jobs whose output is wanted."""

    seconds: float = SECONDS
    lines: int = LINES
    jobs: Sequence[JobView] = ()


def gather(
    cluster: Cluster, state: Path, log: Path, limits: BundleLimits | None = None, tell: Tell = lambda _: None
) -> SupportBundle:
    """Ask a cluster for everything, and take what this machine has kept along: its `state` folder and the `log` file.

    A part that cannot be had, or not in time, is said to be missing and keeps no other away. `tell` is called with what
    is collected now.
    """
    limits = limits or BundleLimits()
    until = time.monotonic() + limits.seconds
    outputs = [_Output(job, limits.lines) for job in limits.jobs]
    files: dict[str, str] = {}
    missing: dict[str, str] = {}
    cleaner = Cleaner()
    if isinstance(cluster, Diagnosed):
        tell(text("reading logs"))
        diagnostics = cluster.diagnostics(LogLimits(until, limits.lines), tell)
        cleaner = Cleaner(diagnostics.secrets)
        missing |= {name: cleaner.text(why) for name, why in diagnostics.missing.items()}
        files |= _diagnostics(diagnostics, cleaner, until, missing)
    parts = _parts(cluster, cleaner, missing)
    parts |= {f"output of {output.job.key}": partial(output.files, cluster, cleaner, until) for output in outputs}
    for name, part in parts.items():
        if time.monotonic() >= until:
            missing[name] = text("timed out; raise --timeout")
            continue
        tell(text("collecting: {part}", part=name))
        try:
            files |= part()
        except PaictlError as error:
            missing[name] = cleaner.text(str(error))
    for path in (*_kept(state), *([log] if log.is_file() else [])):
        name = str(path.relative_to(state)) if path != log else log.name
        files[f"this-machine/{name}"] = cleaner.file(path.read_text(encoding="utf-8", errors="replace"))
    if missing:
        files["missing.json"] = _json(missing)
    return SupportBundle(files, missing)


def _diagnostics(diagnostics: Diagnostics, cleaner: Cleaner, until: float, missing: dict[str, str]) -> dict[str, str]:
    """Logs as files with a list of them, states of pods, and events."""
    files, rows = {}, []
    for log in diagnostics.logs:
        name = f"logs/{log.namespace}/{log.pod}/{log.container}{'.previous' if log.previous else ''}.log"
        if time.monotonic() >= until:
            missing[name] = text("timed out; raise --timeout")
            continue
        content = cleaner.text(log.text)
        files[name] = content
        rows.append({"file": name, "lines": content.count("\n"), "bytes": len(content.encode()), "cut": log.cut})
    files["logs.json"] = _json(rows)
    files["pods.json"] = _json(cleaner.data(plain(diagnostics.pods)))
    files["kubernetes-events.jsonl"] = "".join(_lines(cleaner.data(plain(diagnostics.events))))
    return files


@frozen
class _Output:
    """What the tasks of a job have written, which is its user's: it is collected only on request."""

    job: JobView
    lines: int

    def files(self, cluster: Cluster, cleaner: Cleaner, until: float) -> dict[str, str]:
        """A file for each task that has one; raises `PaictlError` if none has."""
        logs, silent = {}, []
        for task in self.job.tasks:
            if time.monotonic() >= until:
                raise PaictlError(text("timed out; raise --timeout"))
            try:
                data = _newest(cluster.output(self.job.key, TaskPlace(task.role, task.index), lines=self.lines), until)
            except PaictlError as error:
                silent.append(str(error))
                continue
            name = f"jobs/{self.job.key}/{task.role}-{task.index}.log"
            logs[name] = cleaner.text(data.decode(errors="replace"))
        if silent and not logs:
            raise PaictlError(silent[0])
        return logs


def _newest(output: Iterable[bytes], until: float) -> bytes:
    """The newest whole lines of what a task has written; raises `PaictlError` if it does not come in time."""
    kept, size = bytearray(), 0
    for piece in output:
        if time.monotonic() >= until:
            raise PaictlError(text("timed out; raise --timeout"))
        size += len(piece)
        kept += piece
        if len(kept) > 4 * MOST_OUTPUT:
            del kept[: -2 * MOST_OUTPUT]
    if size <= MOST_OUTPUT:
        return bytes(kept)
    return bytes(kept[-MOST_OUTPUT:]).partition(b"\n")[2]  # half a line may be half a secret


def archive(bundle: SupportBundle, folder: str) -> bytes:
    """The files as tar.gz, below one folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
        for name, text in sorted(bundle.files.items()):
            data = text.encode()
            about = tarfile.TarInfo(f"{folder}/{name}")
            about.size, about.mode, about.mtime = len(data), 0o600, int(time.time())
            tar.addfile(about, io.BytesIO(data))
    return packed.getvalue()


def _parts(cluster: Cluster, cleaner: Cleaner, missing: dict[str, str]) -> dict[str, Callable[[], dict[str, str]]]:
    """What is asked, by what it is called where it cannot be had; ports that a cluster lacks are not asked."""

    def cleaned(data: object) -> str:
        return _json(cleaner.data(plain(data)))

    parts: dict[str, tuple[Port | None, Callable[[], dict[str, str]]]] = {
        "summary": (None, lambda: {"about.json": cleaned(_about(cluster))}),
        "nodes": (None, lambda: {"nodes.json": cleaned(cluster.nodes())}),
        "configuration": (Port.CONFIGURATION, lambda: _configuration(cluster)),
        "services": (Port.SERVICES, lambda: _services(cluster, cleaner, missing)),
        "jobs": (Port.JOBS, lambda: {"jobs.json": _json(_jobs(cluster, cleaner))}),
        "waiting jobs": (Port.SCHEDULING, lambda: {"waiting.json": cleaned(_waiting(cluster))}),
        "picture": (Port.SCHEDULING, lambda: {"picture.json": cleaned(picture_data(cluster.picture()))}),
        "events": (None, lambda: {"events.jsonl": "".join(_lines(cleaner.data(plain(_events(cluster)))))}),
    }
    if isinstance(cluster, Recorded):
        parts["recording"] = (None, lambda: recording(cluster, _SEALED))
    if isinstance(cluster, SchedulerShown):
        parts["scheduler"] = (Port.SCHEDULING, lambda: _scheduler(cluster, cleaner))
    return {name: part for name, (port, part) in parts.items() if port is None or port not in cluster.lacks}


def _about(cluster: Cluster) -> dict[str, Any]:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return {"paictl": __version__, "python": python, "system": platform.platform(), "cluster": summary(cluster)}


def _configuration(cluster: Cluster) -> dict[str, str]:
    """The newest version without its secrets, and what is known of the others."""
    newest = cluster.configuration()
    history = [
        {field.name: getattr(version, field.name) for field in fields(version) if field.name != "files"}
        for version in cluster.configurations()
    ]
    files = {f"configuration/{name}": _SEALED.sub("sealed", text) for name, text in newest.files.items()}
    return {**files, "history.json": _json(history)}


def _services(cluster: Cluster, cleaner: Cleaner, missing: dict[str, str]) -> dict[str, str]:
    """Services that were started, and those that others have applied; why one is not ready may quote its log.

    Comparing them with the configuration, drift and protections may take more rights than reading: without, the rest
    is there.
    """
    try:
        views = cluster.services(closely=True)
    except PaictlError as error:
        missing["comparison of services"] = cleaner.text(str(error))
        views = cluster.services()
    content: dict[str, Any] = {"services": [plain(view) for view in views]}
    if isinstance(cluster, Diagnosed):
        content["services"] += [{**plain(view), "started_by": "others"} for view in cluster.unrecorded_services()]
    more: dict[str, Callable[[], Any]] = {
        "drift": lambda: {view.name: list(cluster.drift(view.name)) for view in views},
        "protections": lambda: plain(cluster.protections()),
    }
    for name, ask in more.items():
        try:
            content[name] = ask()
        except PaictlError as error:
            missing[name] = cleaner.text(str(error))
    return {"services.json": _json(cleaner.data(content))}


def _scheduler(cluster: SchedulerShown, cleaner: Cleaner) -> dict[str, str]:
    """What the scheduler shows; its record stays as it is, or its decisions could not be played again."""
    files = {f"{FOLDER}/{name}": data.decode(errors="replace") for name, data in cluster.scheduler_files().items()}
    return {name: content if name.endswith(RECORD) else cleaner.file(content) for name, content in files.items()}


def _jobs(cluster: Cluster, cleaner: Cleaner) -> list[dict[str, Any]]:
    """All jobs; what they are called is no secret, though it is a key."""
    return [{**cleaner.data(plain(job)), "key": job.key} for job in cluster.jobs()]


def _events(cluster: Cluster) -> Sequence[object]:
    return cluster.events()[-MOST_EVENTS:]


def _waiting(cluster: Cluster) -> dict[str, Any]:
    waiting = [job.key for job in cluster.jobs(ended=False) if job.state is JobState.WAITING]
    return {key: cluster.explain(key) for key in waiting[:MOST_EXPLAINED]}


def _kept(state: Path) -> Iterator[Path]:
    """Reports of internal errors, and runs, the newest of each."""
    yield from sorted((state / "crashes").glob("*.txt"))[-MOST_RUNS:]
    for run in sorted(path for path in (state / "runs").glob("*") if path.is_dir())[-MOST_RUNS:]:
        yield from (run / name for name in _RUN_FILES if (run / name).is_file())


def _lines(rows: Iterable[object]) -> Iterator[str]:
    return (json.dumps(plain(row), ensure_ascii=False) + "\n" for row in rows)


def _json(data: object) -> str:
    return json.dumps(plain(data), indent=2, ensure_ascii=False) + "\n"


def plain(data: Any) -> Any:
    """A value of ours as JSON has it: fields by name, instants and everything else that is not JSON as text."""
    if is_dataclass(data) and not isinstance(data, type):
        return {field.name: plain(getattr(data, field.name)) for field in fields(data)}
    if isinstance(data, Enum):
        return plain(data.value)
    if isinstance(data, Mapping):
        return {str(plain(key)): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [plain(item) for item in data]
    if isinstance(data, datetime):
        return data.isoformat()
    return data if data is None or isinstance(data, bool | int | float | str) else str(data)
