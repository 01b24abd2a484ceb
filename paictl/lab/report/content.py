"""The report of a student's labs as data, with the machine on which the labs were done."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from paictl import __version__
from paictl.cluster.interface import Event, EventKind
from paictl.cluster.presets import SERVICES
from paictl.frozen import frozen
from paictl.lab import commandlog
from paictl.lab.embedded import ORIGIN
from paictl.lab.fitting import session_for
from paictl.lab.judging import CheckResult, judged
from paictl.lab.manifest import all_labs
from paictl.lab.messages import LabError
from paictl.lab.observation import Observation
from paictl.lab.session import Session
from paictl.units import Millis, instant, millis_between

FORMAT: Final = 4
_TAG: Final = re.compile(r"(?m)^ +docker-registry:\n(?: {4,}.*\n)*? +tag: *[\"']?([\w.-]+)")
"""Where a services configuration says which version is deployed."""

Report = dict[str, Any]

Clock = Callable[[int], str]
"""An instant (milliseconds since the lab's cluster came up) as time of day, after its day where that is needed."""


@frozen
class Author:
    """Who hands in, and what the textbook wants to be written beside the labs."""

    name: str
    group: str = ""
    problems: str = ""
    remarks: str = ""


def make_report(root: Path, author: Author, language: str) -> Report:
    """The report of all labs that were started in a labs folder; raises `LabError` if none was."""
    sessions = [session for lab in all_labs() if (session := session_for(lab, root)).workspace.started]
    if not sessions:
        raise LabError("nothing-to-report")
    report: Report = {
        "format": FORMAT,
        **{key: value.strip() for key, value in asdict(author).items()},
        "language": language,
        "made": datetime.now().astimezone().isoformat(timespec="seconds"),
        "environment": {**environment(), **_cluster_facts(sessions)},
        "hosts": _hosts(sessions),
        "experiments": [_experiment(session, language) for session in sessions],
    }
    return {**report, "digest": digest_of(report)}


def _cluster_facts(sessions: list[Session]) -> dict[str, str]:
    """The rows of the textbook's table that are about clusters, by the key of the report's words; empty: not known."""
    observations = [session.observation() for session in sessions]
    versions = (
        _openpai(observation.configuration.files.get(SERVICES, ""))
        for observation in observations
        if observation.configuration
    )
    return {
        "openpai": ", ".join(sorted({version for version in versions if version})),
        "jobs": str(sum(len(observation.jobs) for observation in observations)),
    }


def _openpai(services: str) -> str:
    """The version of OpenPAI that a configuration deploys, as its docker registry has it; empty if it does not say."""
    match = _TAG.search(services)
    return match[1] if match else ""


def _hosts(sessions: list[Session]) -> list[dict[str, str]]:
    """The machines of the labs' clusters, each once, with what they tell of their software."""
    nodes = {node.machine.name: node for session in sessions for node in session.observation().nodes}
    return [
        {
            "host": name,
            "address": node.machine.address,
            "role": node.machine.role.value,
            "devices": f"{node.machine.devices} × {node.machine.sku}" if node.machine.devices else "0",
            **node.software,
        }
        for name, node in sorted(nodes.items())
    ]


def _experiment(session: Session, language: str) -> dict[str, Any]:
    """One lab: what was done, what happened, what was judged, what was answered."""
    session.require_started()
    results = judged(session)
    done, lab, observation, site = session.progress, session.lab, session.observation(), session.workspace.site
    return {
        "lab": lab.id,
        "title": lab.title.of(language),
        "goal": lab.goal.of(language).strip(),
        "started": done.started,
        "finished": done.finished,
        "played": done.played,
        "solved": list(done.solved),
        "hints": dict(done.hints),
        "resets": [asdict(reset) for reset in done.resets],
        "skipped": {step: reason for step, reason in done.skipped.items() if step in lab.step_ids},
        "beginning": _beginning(observation),
        "epoch": millis_between(ORIGIN, observation.cluster.epoch) if observation.cluster else 0,
        "now": observation.now,
        "first": session.workspace.first_event,
        **({} if site is None else {"site": {"cluster": site.cluster_id, "user": site.user, "pace": site.pace}}),
        "typed": [asdict(typed) for typed in commandlog.read(session.workspace.folder)],
        "log": [[at, command] for at, command in session.workspace.log()],
        "events": [event_row(event, observation.cluster.epoch) for event in observation.events if observation.cluster],
        "predictions": [
            {"question": step.predict.of(language).strip(), "answer": done.predictions.get(step.id, "")}
            for step in lab.steps
            if step.predict is not None
        ],
        "checks": [_check(result, language) for result in results],
        "answers": [
            {"question": question.text.of(language).strip(), "answer": done.answers.get(str(number), "")}
            for number, question in enumerate(lab.questions, 1)
        ],
    }


def _check(result: CheckResult, language: str) -> dict[str, Any]:
    findings = [
        dict(zip(("ok", "expected", "observed"), (finding.ok, *finding.say(language)), strict=True))
        for finding in result.findings
    ]
    return {
        "id": result.check.id,
        "says": result.check.says.of(language),
        "standing": result.status.value,
        "reason": result.reason,
        "findings": findings,
    }


def _beginning(observation: Observation) -> str:
    """When the lab's cluster came up, as the student's clock showed it."""
    up = observation.cluster.epoch if observation.cluster else ORIGIN
    return up.astimezone().replace(tzinfo=None).isoformat(timespec="seconds")


def event_row(event: Event, epoch: datetime = ORIGIN) -> list[Any]:
    """An event as the report keeps it: with milliseconds since its cluster came up."""
    at = millis_between(epoch, event.at)
    return [event.number, at, event.kind.value, event.subject, event.message, dict(event.data)]


def events_in(experiment: Mapping[str, Any]) -> list[Event]:
    """The events of an experiment, from a report."""
    return [
        Event(number, instant(ORIGIN, Millis(at)), EventKind(kind), *rest)
        for number, at, kind, *rest in experiment["events"]
    ]


def phenomena(experiment: Mapping[str, Any]) -> list[Event]:
    """The events since the student began."""
    return [event for event in events_in(experiment) if event.number > experiment["first"]]


def clock_of(experiment: Mapping[str, Any]) -> Clock:
    """The clock of an experiment, as the student saw it wherever the report is read; with days if it took several."""
    beginning = datetime.fromisoformat(experiment["beginning"])
    end = beginning + timedelta(milliseconds=experiment.get("now", 0))
    form = "%H:%M:%S" if beginning.date() == end.date() else "%m-%d %H:%M:%S"
    return lambda at: (beginning + timedelta(milliseconds=at)).strftime(form)


def epoch_of(experiment: Mapping[str, Any]) -> Millis:
    """When the lab's cluster came up, in Unix time; reports of earlier versions tell the student's clock only."""
    if "epoch" in experiment:
        return Millis(experiment["epoch"])
    beginning = datetime.fromisoformat(experiment["beginning"]).replace(tzinfo=UTC)
    return millis_between(ORIGIN, beginning)


def digest_of(report: Mapping[str, Any]) -> str:
    """SHA-256 of everything in a report but the digest itself."""
    content = {key: value for key, value in report.items() if key != "digest"}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def environment() -> dict[str, str]:
    """What the textbook asks for, by the key of the report's words; empty where the machine does not tell."""
    return {
        "cpu": f"{_cpu()}, {os.cpu_count() or 1} × vCPU",
        "memory": _memory(),
        "gpu": _gpus(),
        "os": _system(),
        "driver": _nvidia("driver_version"),
        "cuda": _cuda(),
        "runtime": _runtimes(),
        "python": f"Python {platform.python_version()}",
        "paictl": f"paictl {__version__}",
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # the system does not count its pages
        output = _sysctl("hw.memsize")
        size = int(output) if output.isdecimal() else 0
    return f"{size / 2**30:.0f} GiB" if size > 0 else ""


def _sysctl(name: str) -> str:
    """What macOS knows of its machine; empty elsewhere."""
    return _output(["/usr/sbin/sysctl", "-n", name]).strip() if platform.system() == "Darwin" else ""


def _gpus() -> str:
    """The GPUs that nvidia-smi lists, one by one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    return "; ".join(line.partition(" (")[0] for line in _output([program, "-L"]).splitlines())


def _nvidia(field: str) -> str:
    """A fact of all GPUs, each value once."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    lines = _output([program, f"--query-gpu={field}", "--format=csv,noheader"]).splitlines()
    return ", ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _cuda() -> str:
    """The newest CUDA that the driver can run, as nvidia-smi writes above its table."""
    program = shutil.which("nvidia-smi")
    match = re.search(r"CUDA Version: *([\d.]+)", _output([program])) if program else None
    return match[1] if match else ""


def _runtimes() -> str:
    """The container runtimes of this machine, with their versions."""
    runtimes = []
    for name in ("containerd", "docker", "podman"):
        program = shutil.which(name)
        version = re.search(r"\bv?(\d+\.\d+[\w.+~-]*)", _output([program, "--version"])) if program else None
        runtimes += [f"{name} {version[1]}"] if version else []
    return ", ".join(runtimes)


def _output(command: list[str]) -> str:
    """What a program prints; empty if it cannot tell."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: S603
    except (subprocess.SubprocessError, OSError, UnicodeDecodeError):
        return ""


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:  # not on Linux
        name = f"macOS {platform.mac_ver()[0]}" if platform.mac_ver()[0] else ""
    kernel = f"{platform.system()} {platform.release()}"
    return f"{name} ({kernel})" if name else kernel
