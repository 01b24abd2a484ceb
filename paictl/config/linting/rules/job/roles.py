"""Task roles: their names, sizes, ports and ends."""

from __future__ import annotations

import re
from typing import Final

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.job import RESOURCES, JobRole, job_of, pod_name_part
from paictl.i18n import joined, text
from paictl.workload.ports import MOST_PORTS

_WEB_PAGE = text("the web page")


_READERS = {
    text("the server"): re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z"),
    "HiveD": re.compile(r"[A-Za-z0-9._~]+\Z"),
    _WEB_PAGE: re.compile(r"[a-z0-9]{1,63}\Z"),
}


_HINT = "use lower-case letters and digits, e.g. worker1"


@rule("JOB607", "role-name", ERROR)
def role_name(document: Document) -> Findings:
    """The name of a task role is refused by the server, HiveD or the web page.

    Why: the three disagree. The server accepts letters, digits and `_`, not beginning with a digit; HiveD also
    accepts `.` and `~`; the web page's editor only accepts lower-case letters and digits. `worker1` is fine
    everywhere.

    Fails with::

        # job.yaml
        -  train:
        +  train-1:
    """
    # Every task role that somebody refuses; only the web page's taste is no error.
    for role in job_of(document).roles.values():
        refusers = [reader for reader, pattern in _READERS.items() if not pattern.match(role.name)]
        if not pod_name_part(role.name):
            yield Finding(
                role.key,
                text("the name of task role {role!r} leaves nothing for the names of its pods", role=role.name),
                _HINT,
            )
        elif refusers:
            milder = Severity.INFO if refusers == [_WEB_PAGE] else None
            yield Finding(
                role.key,
                text("task role {role!r} is refused by {refusers}", role=role.name, refusers=joined(" and ", refusers)),
                _HINT,
                (),
                milder,
            )


@rule("JOB608", "colliding-roles", ERROR)
def colliding_roles(document: Document) -> Findings:
    """Two task roles get the same name in Kubernetes.

    Why: names are converted to lower case and everything but letters and digits is dropped, so `ps_1` and `PS1`
    share the names of their pods; nothing checks this.

    Fails with::

        # job.yaml
        -  train:
        +  ps_1:
        @@
             commands: [python3 train.py]
        +  PS1:
        +    dockerImage: image
        +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        +    commands: [python3 train.py]
    """
    # Every task role after the first of its shortened name.
    first: dict[str, JobRole] = {}
    for role in job_of(document).roles.values():
        short = pod_name_part(role.name)
        earlier = first.setdefault(short, role)
        if short and earlier is not role:
            message = text(
                "task roles {earlier!r} and {role!r} both become {short!r} in names of pods",
                earlier=earlier.name,
                role=role.name,
                short=short,
            )
            yield Finding(role.key, message, "rename one of the two")


@rule("JOB609", "gang-retries", WARNING)
def gang_retries(document: Document) -> Findings:
    """A task role has retries of single tasks, but the job is a gang.

    Why: with gang allocation, the default, all tasks start and end together, and `taskRetryCount` has no effect; only
    `jobRetryCount` starts the job again.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            taskRetryCount: 3
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras: {gangAllocation: false}

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
    """
    # Every taskRetryCount other than 0 unless gangAllocation is false.
    job = job_of(document)
    if not job.gang:
        return
    for role in job.roles.values():
        if role.node.integer("taskRetryCount"):
            message = text("taskRetryCount of task role {role!r} has no effect in a gang", role=role.name)
            at = role.node.get("taskRetryCount") or role.key
            yield Finding(at, message, "set extras.gangAllocation to false, or use jobRetryCount")


@rule("JOB610", "unreachable-completion", WARNING)
def unreachable_completion(document: Document) -> Findings:
    """A completion asks for more tasks than the role has.

    Why: with `minFailedInstances` above `instances` failed tasks never fail the job. With `minSucceededInstances` above
    it the job simply waits for all tasks, as it does without the key.

    Fails with::

        # job.yaml
           train:
        +    instances: 2
        +    completion: {minFailedInstances: 3}
    """
    # Every minFailedInstances and minSucceededInstances above the number of instances.
    for role in job_of(document).roles.values():
        completion = role.node.mapping("completion")
        for key, milder in (("minFailedInstances", None), ("minSucceededInstances", Severity.INFO)):
            number = completion.integer(key)
            if number is not None and number > role.instances:
                message = text(
                    "{key} is {number}, but task role {role!r} has only {instances}",
                    key=key,
                    number=number,
                    role=role.name,
                    instances=role.instances,
                )
                at = completion.get(key) or role.key
                yield Finding(
                    at, message, text("write at most {instances}, or -1", instances=role.instances), severity=milder
                )


@rule("JOB611", "resource-amount", ERROR)
def resource_amount(document: Document) -> Findings:
    """A task asks for a negative amount, or for no CPU or memory.

    Why: the server takes any integer. A task that asks for nothing at all gets 0 devices, which HiveD answers with a
    panic; a task without memory is killed as soon as it allocates any.

    Fails with::

        # job.yaml
        -    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: -1}
    """
    # Every negative amount, and zero where a task cannot live with it.
    for role in job_of(document).roles.values():
        amounts = {key: role.resources.integer(key) for key in RESOURCES}
        if all(amount == 0 for amount in amounts.values()):
            key_of_all = role.node.key("resourcePerInstance") or role.key
            yield Finding(
                key_of_all,
                text("task role {role!r} asks for nothing at all", role=role.name),
                "write what one task needs",
            )
            continue
        for key, amount in amounts.items():
            at = role.resources.get(key) or role.key
            if amount is not None and amount < 0:
                message = text("{key} of task role {role!r} is negative", key=key, role=role.name)
                yield Finding(at, message, "write 0 or more" if key == "gpu" else "write 1 or more")
            elif amount == 0 and key != "gpu":
                message = text("task role {role!r} asks for no {key}", role=role.name, key=key)
                yield Finding(at, message, "write what one task needs", severity=Severity.WARNING)


@rule("JOB619", "shared-memory", WARNING)
def shared_memory(document: Document) -> Findings:
    """The shared memory of a task is zero, negative, or more than its memory.

    Why: shared memory counts as memory of the task: a task that fills it is killed before it finishes.

    Fails with::

        # job.yaml
           train:
        +    extraContainerOptions: {shmMB: 16384}
    """
    # Every shmMB that cannot be used.
    for role in job_of(document).roles.values():
        options = role.node.mapping("extraContainerOptions")
        shared, memory = options.integer("shmMB"), role.resources.integer("memoryMB")
        at = options.get("shmMB") or role.key
        if shared is not None and shared <= 0:
            yield Finding(
                at,
                text("shmMB of task role {role!r} is {shared}", role=role.name, shared=shared),
                "write 1 or more, or leave it out: 512",
            )
        elif shared is not None and memory is not None and 0 < memory < shared:
            message = text(
                "task role {role!r} has {shared} MiB of shared memory, but only {memory} MiB of memory",
                role=role.name,
                shared=shared,
                memory=memory,
            )
            yield Finding(at, message, "lower shmMB, or raise memoryMB")


_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


_GIVEN = ("ssh", "http")


@rule("JOB620", "port-label", ERROR)
def port_label(document: Document) -> Findings:
    """A port label or number of ports is refused or overwritten by the server.

    Why: a label becomes part of a variable's name (`PAI_PORT_LIST_…`): letters, digits and `_`, not beginning with a
    digit. Every task gets a port for `ssh` and one for `http`, whatever the job says about them. A task has at most
    1,000 ports, because all of them are in its environment.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tensorboard: 1}}
            commands: [python3 train.py]

    Fails with::

        # job.yaml
        -    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tensorboard: 1}}
        +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tensor-board: 1}}
    """
    # Every label and number under resourcePerInstance.ports.
    for role in job_of(document).roles.values():
        ports = role.resources.mapping("ports")
        total = 0
        for entry in ports:
            number = ports.integer(entry.name)
            total += max(0, number or 0)
            if total > MOST_PORTS:
                message = text("a task can have at most {most:,} ports", most=MOST_PORTS)
                yield Finding(entry.value, message, "use fewer ports: programs can share one")
                break
            if not _LABEL.match(entry.name):
                message = text("port label {entry!r} must be made of letters, digits and _", entry=entry.name)
                yield Finding(entry.key, message, "rename it, e.g. to tensorboard")
            elif number is not None and number < 1:
                message = text(
                    "task role {role!r} asks for {number} ports {entry!r}",
                    role=role.name,
                    number=number,
                    entry=entry.name,
                )
                yield Finding(entry.value, message, "write 1 or more, or remove the label")
            elif entry.name in _GIVEN and number not in (None, 1):
                message = text("every task gets exactly one port {entry!r}, whatever is written here", entry=entry.name)
                yield Finding(entry.key, message, "use another label", severity=Severity.WARNING)


MOST_PODS: Final = 150_000
"""Pods of the largest cluster that Kubernetes is made for."""


@rule("JOB628", "too-many-tasks", ERROR)
def too_many_tasks(document: Document) -> Findings:
    """A job has more tasks than any cluster can hold.

    Why: every task is a pod, and Kubernetes is designed for at most 150,000 pods (kubernetes.io, "Considerations for
    large clusters"). Such a number is most likely a typo, and the server that accepts the job must create a pod for
    each task.

    Fails with::

        # job.yaml
           train:
        +    instances: 1000000000000
    """
    # The largest role of a job whose roles together have too many tasks.
    roles = job_of(document).roles.values()
    tasks = sum(role.instances for role in roles)
    if tasks > MOST_PODS:
        largest = max(roles, key=lambda role: role.instances)
        message = text(
            "the job has {tasks:,} tasks, and no cluster holds more than {most_pods:,} pods",
            tasks=tasks,
            most_pods=MOST_PODS,
        )
        at = largest.node.get("instances") or largest.key
        yield Finding(at, message, "use fewer instances, or several jobs")
