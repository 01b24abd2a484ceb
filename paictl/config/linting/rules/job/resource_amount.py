"""A task asks for a negative amount, or for no CPU or memory.

Why: the server takes any integer. A task that asks for nothing at all gets 0 devices, which HiveD answers with a panic;
a task without memory is killed as soon as it allocates any.

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
    -    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: -1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.models.job import RESOURCES, job_of


@rule("JOB611", "resource-amount", ERROR)
def check(document: Document) -> Findings:
    """Every negative amount, and zero where a task cannot live with it."""
    for role in job_of(document).roles.values():
        amounts = {key: role.resources.integer(key) for key in RESOURCES}
        if all(amount == 0 for amount in amounts.values()):
            key_of_all = role.node.key("resourcePerInstance") or role.key
            yield Finding(key_of_all, f"task role {role.name!r} asks for nothing at all", "write what one task needs")
            continue
        for key, amount in amounts.items():
            at = role.resources.get(key) or role.key
            if amount is not None and amount < 0:
                message = f"{key} of task role {role.name!r} is negative"
                yield Finding(at, message, "write 0 or more" if key == "gpu" else "write 1 or more")
            elif amount == 0 and key != "gpu":
                message = f"task role {role.name!r} asks for no {key}"
                yield Finding(at, message, "write what one task needs", severity=Severity.WARNING)
