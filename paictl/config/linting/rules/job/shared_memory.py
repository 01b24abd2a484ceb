"""The shared memory of a task is zero, negative, or more than its memory.

Why: shared memory counts as memory of the task: a task that fills it is killed before it comes to the end.

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
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]

Fails with::

    # job.yaml
       train:
    +    extraContainerOptions: {shmMB: 16384}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB619", "shared-memory", WARNING)
def check(document: Document) -> Findings:
    """Every shmMB that cannot be used."""
    for role in job_of(document).roles.values():
        options = role.node.mapping("extraContainerOptions")
        shared, memory = options.integer("shmMB"), role.resources.integer("memoryMB")
        at = options.get("shmMB") or role.key
        if shared is not None and shared <= 0:
            yield Finding(at, f"shmMB of task role {role.name!r} is {shared}", "write 1 or more, or leave it out: 512")
        elif shared is not None and memory is not None and 0 < memory < shared:
            message = f"task role {role.name!r} has {shared} MiB of shared memory, but only {memory} MiB of memory"
            yield Finding(at, message, "lower shmMB, or raise memoryMB")
