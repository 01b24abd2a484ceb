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

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB609", "gang-retries", WARNING)
def check(document: Document) -> Findings:
    """Every taskRetryCount other than 0 unless gangAllocation is false."""
    job = job_of(document)
    if not job.gang:
        return
    for role in job.roles.values():
        if role.node.integer("taskRetryCount"):
            message = f"taskRetryCount of task role {role.name!r} has no effect in a gang"
            at = role.node.get("taskRetryCount") or role.key
            yield Finding(at, message, "set extras.gangAllocation to false, or use jobRetryCount")
