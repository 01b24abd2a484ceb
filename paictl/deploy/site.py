"""What the phases of one deployment share: the desired state, the open connections, the facts."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from paictl.deploy.artifacts import Artifact
from paictl.deploy.desired import Desired
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.places import cache_folder
from paictl.plan.run import Tell
from paictl.remote.ansible.collecting import PlaybookResult, TaskEvent, TaskEventKind, TaskListener
from paictl.remote.ansible.run import AnsibleSession, PlaybookOptions
from paictl.resources import resource_folder

_SHOWN: Final = 3
TIMEOUT: Final = 300.0


class DeployError(PaictlError):
    """A phase did not get to its end on some hosts."""

    def __init__(self, message: str, *, exit_code: ExitCode, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message, hint=hint, where=where)
        self.exit_code = exit_code


@frozen
class JoinCredentials:
    """What machines join with: made for one run, held in memory, worth nothing after it."""

    token: str = field(default_factory=lambda: f"{secrets.token_hex(3)}.{secrets.token_hex(8)}", repr=False)
    certificate_key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    @property
    def variables(self) -> dict[str, str]:
        """The secrets as playbooks know them."""
        return {"paictl_token": self.token, "paictl_certificate_key": self.certificate_key}


@dataclass(slots=True)
class Site:
    """A running deployment; `private` is a folder that only its owner can read and that is removed at the end."""

    desired: Desired
    session: AnsibleSession
    private: Path
    timeout: float = TIMEOUT
    """Seconds that a phase may wait for Kubernetes: kubeadm on a machine, nodes to get Ready."""
    command: str = "deploy apply"
    """What is under way, for others who are kept out meanwhile."""
    break_lock: bool = False
    """Whether the lock of another machine is replaced."""
    judge: Callable[[Site], object] = lambda _: None
    """What else is refused before anything is changed: raises `PaictlError`."""
    lacks_network: bool = False
    """Whether nodes wait for the network of pods that the user brings."""
    facts: dict[str, HostFacts] = field(default_factory=dict)
    looked: tuple[float, float] = (0.0, 0.0)
    """Two instants by the clock here, between which the facts were gathered."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.desired.deployment.settings.cluster

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All machines."""
        return self.desired.deployment.machines

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, once it was fetched."""
        return self.private / "admin.conf"

    def play(
        self,
        name: str,
        tell: Tell,
        machines: Iterable[Machine],
        variables: Mapping[str, Any] | None = None,
        options: PlaybookOptions = PlaybookOptions(),
    ) -> PlaybookResult:
        """Run one of our playbooks on some machines; raises `DeployError` with what went wrong where."""
        chosen = tuple(machine.name for machine in machines)
        playbook = resource_folder("playbooks") / f"{name}.yml"
        result = self.session.run(playbook, variables or {}, telling(tell), replace(options, limit=chosen))
        well = [host for host in chosen if (outcome := result.hosts.get(host)) is not None and outcome.well]
        tell(f"{len(well)}/{len(chosen)}", "hosts")
        raise_for(result, name, len(chosen))
        return result


def telling(tell: Tell) -> TaskListener:
    """Who tells a phase what a playbook does: tasks as they begin, and what went wrong on which host."""

    def listen(event: TaskEvent) -> None:
        if event.what is TaskEventKind.TASK:
            tell(event.task, "")
        elif event.what in (TaskEventKind.FAILED, TaskEventKind.UNREACHABLE, TaskEventKind.UNFINISHED):
            tell(f"{event.what.value}: {event.task}: {event.message}", event.host)

    return listen


def raise_for(result: PlaybookResult, name: str, of: int) -> None:
    """Raise `DeployError` unless a playbook got to its end everywhere."""
    if result.ok:
        return
    bad = [host for host in result.hosts.values() if not host.well]
    if not bad:
        reason = result.stopped or (result.output.strip().splitlines() or ["it did not run"])[-1]
        raise DeployError(f"{name}: {reason}", exit_code=ExitCode.USAGE, where=str(result.folder))
    events = [event for outcome in bad for event in (outcome.unreachable, *outcome.failures) if event is not None]
    lines = [f"{event.host}: {event.message}" for event in events[:_SHOWN]]
    lines += [f"{outcome.host}: {outcome.unfinished[0]} may be half done" for outcome in bad if outcome.unfinished][
        :_SHOWN
    ]
    more = len(bad) - len({event.host for event in events[:_SHOWN]})
    message = "; ".join(lines) + (f"; and {more} more hosts" if more > 0 else "")
    unreachable = all(outcome.unreachable for outcome in bad)
    code = ExitCode.PARTIAL if len(bad) < of else ExitCode.UNREACHABLE if unreachable else ExitCode.NEGATIVE
    hint = next((event.hint for event in events if event.hint), "") or text(
        "fix it, then run the same command again to resume"
    )
    raise DeployError(message or text("{name} failed", name=name), exit_code=code, hint=hint, where=str(result.folder))


def _runs(process: str) -> bool:
    """Whether there is a process of a number."""
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def pack_folder() -> Iterator[Path]:
    """A folder for what is pushed, of this run alone: another deployment may be at work and tidies up at its end."""
    above = cache_folder() / "packs"
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in above.iterdir():  # left by a run that was killed: without its process they have no use
        if not _runs(old.name):
            shutil.rmtree(old, ignore_errors=True)
    folder = above / str(os.getpid())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pack(desired: Desired, machine: Machine, facts: HostFacts, folder: Path) -> Path | None:
    """The archive of what a host lacks, for `paictl_programs` and `paictl_images`.

    None where it lacks nothing, or has all of that in the archive that an earlier run has pushed. Hosts that lack the
    same share it; it bears the hash of what is in it.
    """
    lacking = facts.values["differences"]
    files: dict[str, Artifact] = {}
    for row in desired.programs():
        if row["name"] in lacking["programs"]:
            files[row["file"]] = desired.artifacts.need(row["name"])
    for archive in desired.archives:
        if archive.name in lacking["images"] and archive.is_for(machine.role):
            files[archive.name] = archive.artifact
    if set(files) <= {*facts.values.get("packed", ())}:
        return None
    key = hashlib.sha256("".join(f"{name} {files[name].sha256}\n" for name in sorted(files)).encode()).hexdigest()
    path = folder / f"{key[:16]}.tar"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f"{key[:16]}.{os.getpid()}.part"
        with tarfile.open(part, "w") as packed:
            for name, artifact in sorted(files.items()):
                packed.add(desired.artifacts.file(artifact).resolve(), name, recursive=False)
        part.replace(path)
    return path
