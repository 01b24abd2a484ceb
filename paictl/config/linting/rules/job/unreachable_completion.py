"""A completion asks for more tasks than the role has.

Why: with `minFailedInstances` above `instances` failed tasks never fail the job. With `minSucceededInstances` above it
the job simply waits for all tasks, as it does without the key.

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
    +    instances: 2
    +    completion: {minFailedInstances: 3}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.job import job_of


@rule("JOB610", "unreachable-completion", WARNING)
def check(document: Document) -> Findings:
    """Every minFailedInstances and minSucceededInstances above the number of instances."""
    for role in job_of(document).roles.values():
        completion = role.node.mapping("completion")
        for key, milder in (("minFailedInstances", None), ("minSucceededInstances", Severity.INFO)):
            number = completion.integer(key)
            if number is not None and number > role.instances:
                message = f"{key} is {number}, but task role {role.name!r} has only {role.instances}"
                at = completion.get(key) or role.key
                yield Finding(at, message, f"write at most {role.instances}, or -1", severity=milder)
