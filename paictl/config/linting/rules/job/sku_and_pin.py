"""A task role wants both a device type and a pinned cell.

Why: a pinned cell has a type already; the server refuses the job.

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
          train: {pinnedCellId: box}

Fails with::

    # job.yaml
    -      train: {pinnedCellId: box}
    +      train: {skuType: V100, pinnedCellId: box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB613", "sku-and-pin", ERROR)
def check(document: Document) -> Findings:
    """Every role with skuType and pinnedCellId."""
    for role in job_of(document).roles.values():
        if role.sku is not None and role.pin is not None:
            message = f"task role {role.name!r} has both skuType and pinnedCellId"
            yield Finding(role.wishes.key("pinnedCellId") or role.pin, message, "remove one of the two")
