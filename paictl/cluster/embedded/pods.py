"""Pods of the embedded cluster as people reach them: imagined logs and commands.

It is what can honestly be said of such pods: nothing runs in them, and so they write nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import ClusterError, TaskPlace, UnsupportedError
from paictl.cluster.jobwords import refuse_task
from paictl.i18n import text
from paictl.units import instant, rfc3339

if TYPE_CHECKING:
    import socket

    from paictl.remote import Pipes


def _log_of(job: LiveJob, task: TaskPlace, epoch: datetime) -> bytes:
    """When the task's pod ran and where, what it would have done, and that it has not; as comments of a shell."""
    refuse_task(job.key, task, [(task.role, task.index) for task in job.status.tasks])
    run = job.runs.get((task.role, task.index))
    if run is None:
        raise ClusterError(
            text("task {task} of {job} has no container yet, so there is no output", task=task, job=job.key),
            hint=text("it has not started, or its pod is gone; why it waits: paictl job explain {job}", job=job.key),
        )  # fmt: skip
    role = next(role for role in job.job.roles if role.name == task.role)
    lines = [f"# {rfc3339(instant(epoch, run.started))} started on {run.info.node}, image {role.image}"]
    lines.append("# this pod is imagined: none of its commands is run, and nothing is written")
    lines += [f"#   {line}" for command in role.commands for line in command.splitlines()]
    if run.ended is not None:
        lines.append(f"# {rfc3339(instant(epoch, run.ended))} ended{f': {run.reason}' if run.reason else ''}")
    return "".join(f"{line}\n" for line in lines).encode()


class ImaginedPods(ABC):
    """What the port `Jobs` asks of pods, where none of them runs."""

    @property
    @abstractmethod
    def epoch(self) -> datetime:
        """When the cluster came up."""

    @abstractmethod
    def _world(self) -> AbstractContextManager[World]:
        """The cluster as it is now."""

    @abstractmethod
    def _job(self, world: World, key: str) -> LiveJob:
        """A job; raises `ClusterError` if there is none."""

    def output(self, key: str, task: TaskPlace, *, follow: bool = False, lines: int | None = None) -> Iterator[bytes]:  # noqa: ARG002
        """When a task ran and where, and that its pod is imagined."""
        with self._world() as world:
            yield _log_of(self._job(world, key), task, self.epoch)

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:  # noqa: ARG002
        """Nothing runs in a pod that is imagined."""
        raise UnsupportedError(
            text("pods of this cluster are simulated: {command} cannot run in them", command=command[0]),
            hint=text("see where they are placed: paictl job show {job}", job=key),
        )

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """Nothing listens in a pod that is imagined."""
        with self._world() as world:
            job = self._job(world, key)
            refuse_task(job.key, task, [(task.role, task.index) for task in job.status.tasks])
        raise UnsupportedError(
            text("pods of this cluster are simulated: nothing listens on port {port} of {task}", port=port, task=task),
            hint=text("tasks serve on a Kubernetes cluster: --cluster NAME"),
        )
