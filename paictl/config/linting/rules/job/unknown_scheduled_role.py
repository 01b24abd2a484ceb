"""`extras.hivedScheduler` speaks of a task role that the job does not have.

Why: the server refuses the job.

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
    extras:
      hivedScheduler:
        taskRoles:
          train: {skuType: V100}

Fails with::

    # job.yaml
    -      train: {skuType: V100}
    +      trian: {skuType: V100}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import job_of
from paictl.words import listed


@rule("JOB615", "unknown-scheduled-role", ERROR)
def check(document: Document) -> Findings:
    """Every key under extras.hivedScheduler.taskRoles that is no task role."""
    job = job_of(document)
    wishes = job.hived.mapping("taskRoles")
    free = [role for role in job.roles if role not in wishes]
    for entry in wishes:
        if job.roles and entry.name not in job.roles:
            message = f"extras.hivedScheduler speaks of {entry.name!r}, which is no task role"
            yield Finding(entry.key, message, *suggested(entry.key, free, f"name one of: {listed(job.roles)}"))
