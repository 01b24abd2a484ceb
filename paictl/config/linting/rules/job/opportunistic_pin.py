"""An opportunistic job wants a pinned cell.

Why: opportunistic jobs run outside the quota of their VC, and a pinned cell is part of it; HiveD refuses the pods.

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
        jobPriorityClass: oppo
        taskRoles:
          train: {skuType: V100}

Fails with::

    # job.yaml
    -      train: {skuType: V100}
    +      train: {pinnedCellId: box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB623", "opportunistic-pin", ERROR)
def check(document: Document) -> Findings:
    """Every pinnedCellId in a job of class oppo."""
    job = job_of(document)
    if job.opportunistic:
        for role in job.roles.values():
            if role.pin is not None:
                message = f"task role {role.name!r} of an opportunistic job cannot run in pinned cell {role.pin.text!r}"
                yield Finding(role.pin, message, "remove pinnedCellId, or write jobPriorityClass: test")
