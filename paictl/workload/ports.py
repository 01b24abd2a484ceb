"""Ports of tasks: their numbers by label, and what people open of a job; the runtime's plugin `tensorboard`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import Fields, JobError
from paictl.workload.plugins import TENSORBOARD, plugins_of
from paictl.workload.ssh import ssh_of

FIRST_PORT: Final = 15_000
"""Ports are counted from here, by label in the order of the alphabet."""
SSH_PORT: Final = "ssh"
"""Label of the SSH server's port among the ports of a role."""
TENSORBOARD_PORT: Final = 6006
LAST_PORT: Final = 65_535
MOST_PORTS: Final = 1_000
"""Ports of a task of a job that is taken: each is a number in the environment of all tasks of the job."""
MOST_NUMBERS: Final = LAST_PORT - FIRST_PORT
"""Ports that a task can have at all, besides that of its SSH server; jobs of earlier versions may have so many."""
_PARAMETERS: Final = frozenset({"port", "logdir"})


def port_lists(labels: Mapping[str, int]) -> dict[str, range]:
    """The ports of a task by label, from how many each label has: anybody may write any number."""
    lists, following = {}, FIRST_PORT
    for label, number in sorted(labels.items()):
        lists[label] = range(following, following + number)
        following += number
    return lists


def refuse_ports(job: Fields, most: int = MOST_PORTS) -> None:
    """Raise `JobError` for a task with more ports than it may have.

    Asked where a job is taken, not where it is read: one that was taken has to be followed until it ends.
    """
    roles = job.mapping("taskRoles")
    for role in roles.values:
        resources = roles.mapping(str(role)).mapping("resourcePerInstance")
        asked = resources.get("ports")
        numbers = [number for number in asked.values() if isinstance(number, int)] if isinstance(asked, Mapping) else []
        if sum(number for number in numbers if number > 0) > most:
            raise resources.error("ports", text("a task can have at most {most:,} ports", most=most))


@frozen
class TensorBoard:
    """What the plugin asks for: a port of the pod, folders by name, and the task roles whose first task serves it."""

    port: int
    folders: Mapping[str, str]
    roles: tuple[str, ...]

    def command(self) -> str:
        """The arguments of TensorBoard for a shell; it listens on localhost, where only paictl reaches it."""
        if len(self.folders) == 1:
            folder = f"--logdir {shlex.quote(next(iter(self.folders.values())))}"
        else:
            folder = f"--logdir_spec {shlex.quote(','.join(f'{name}:{path}' for name, path in self.folders.items()))}"
        return f"--host 127.0.0.1 --port {self.port} {folder}"


def tensorboard_of(job: Fields) -> TensorBoard | None:
    """What a job asks for, None without the plugin; raises `JobError` for a wrong parameter.

    As in OpenPAI it is for the first task role, unless the plugin names others.
    """
    board: TensorBoard | None = None
    for plugin in plugins_of(job):
        if plugin.name != TENSORBOARD:
            continue
        if board is not None:
            raise plugin.fields.error(
                "plugin", text("the plugin tensorboard is listed twice"), hint=text("keep one of the two")
            )
        parameters = plugin.parameters(_PARAMETERS)
        port = parameters.whole("port", 1, TENSORBOARD_PORT)
        if port > LAST_PORT:
            raise parameters.error("port", text("must be at most {most}, is {number}", most=LAST_PORT, number=port))
        first = tuple(str(role) for role in list(job.mapping("taskRoles").values)[:1])
        board = TensorBoard(port, _folders(parameters), plugin.roles or first)
        _refuse_taken(job, board, parameters)
    return board


def _folders(parameters: Fields) -> dict[str, str]:
    logdir = parameters.mapping("logdir")
    if not logdir.values:
        raise parameters.error(
            "logdir",
            text("the plugin tensorboard needs a folder"),
            hint=text("name a folder under logdir, for instance logs: /mnt/logs"),
        )
    folders = {str(name): logdir.text(str(name)) for name in logdir.values}
    for name, path in folders.items():
        if len(folders) > 1 and any(mark in f"{name}{path}" for mark in ",:"):
            raise logdir.error(name, text("a comma or colon separates folders, and cannot be in a name or path"))
    return folders


def _refuse_taken(job: Fields, board: TensorBoard, parameters: Fields) -> None:
    """Raise `JobError` for a port that the role has given to something else."""
    for role in board.roles:
        for label, numbers in port_lists(_labels(job, role)).items():
            if board.port in numbers:
                raise parameters.error(
                    "port",
                    text(
                        "port {port} is the port {label} of task role {role}", port=board.port, label=label, role=role
                    ),
                    hint=text("choose another below {first}", first=FIRST_PORT),
                )


def _labels(job: Fields, role: str) -> dict[str, int]:
    """How many ports each label of a role has, that of its SSH server among them; what is not a number is left out."""
    roles = job.mapping("taskRoles")
    asked = roles.mapping(str(role)).mapping("resourcePerInstance").get("ports") if role in roles.values else None
    pairs = asked.items() if isinstance(asked, Mapping) else ()
    labels = {str(key): number for key, number in pairs if isinstance(number, int) and number > 0}
    access = ssh_of(job, gang=job.mapping("extras").get("gangAllocation") is not False)
    return {**labels, SSH_PORT: 1} if access is not None and access.is_for(role) else labels


@frozen
class ServedPort:
    """A port that people may open: of each task of `role`, or of its first task only."""

    role: str
    name: str
    port: int
    first_only: bool = False

    def is_of(self, role: str, index: int) -> bool:
        """Whether a task has it."""
        return role == self.role and (index == 0 or not self.first_only)


def ports_of(data: Mapping[str, Any]) -> tuple[ServedPort, ...]:
    """What people may open of a job, TensorBoard first, without SSH; raises `JobError` for a wrong plugin."""
    job = Fields(data, "")
    return (*_boards(job), *_labelled(job))


def _boards(job: Fields) -> Iterator[ServedPort]:
    board = tensorboard_of(job)
    for role in board.roles if board is not None else ():
        yield ServedPort(role, TENSORBOARD, board.port if board is not None else 0, first_only=True)


def _labelled(job: Fields) -> Iterator[ServedPort]:
    last = (
        FIRST_PORT + MOST_PORTS + 1
    )  # one is for SSH; more, which jobs of earlier versions have, are opened by number
    for role in job.mapping("taskRoles").values:
        labels = _labels(job, str(role))
        for label, numbers in port_lists(labels).items():
            if label != SSH_PORT:
                there = range(numbers.start, min(numbers.stop, last))
                yield from (
                    ServedPort(str(role), label if len(there) == 1 else f"{label}-{place}", number)
                    for place, number in enumerate(there)
                )


def chosen_port(ports: tuple[ServedPort, ...], role: str, index: int, word: str | None) -> int:
    """The port of a task that a name or number stands for, without a word its only one. Raises `JobError`."""
    own = {port.name: port.port for port in ports if port.is_of(role, index)}
    if word is None:
        if len(set(own.values())) != 1:
            message = text("task {task} has several ports", task=f"{role}:{index}")
            if not own:
                message = text("task {task} names no port", task=f"{role}:{index}")
            hint = text("say which: --port {names}", names="|".join(own) or "NUMBER")
            raise JobError("--port", message, hint=hint)
        return next(iter(own.values()))
    if word in own:
        return own[word]
    if word.isascii() and word.isdigit() and len(word) < 6 and 0 < int(word) <= LAST_PORT:
        return int(word)
    raise JobError(
        "--port",
        text("task {task} has no port {port!r}", task=f"{role}:{index}", port=word),
        hint=text("a number, or one of: {names}", names=", ".join(own) or text("none")),
    )
