"""The number of devices that a task role asks of HiveD is not used.

Why: the server computes it from `resourcePerInstance` and the resources of the device type, and overwrites
`skuNumber`; `skuNum` it does not read at all. A number equal to `gpu` changes nothing and is only mentioned.

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
    +      train: {skuType: V100, skuNumber: 4}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.job import job_of


@rule("JOB616", "ignored-sku-number", WARNING)
def check(document: Document) -> Findings:
    """Every skuNumber and skuNum."""
    for role in job_of(document).roles.values():
        for key in ("skuNumber", "skuNum"):
            number = role.wishes.integer(key)
            if number is not None:
                same = number == role.resources.integer("gpu")
                message = f"{key} of task role {role.name!r} is not used: the number follows from resourcePerInstance"
                at = role.wishes.key(key) or role.key
                yield Finding(at, message, "remove it", severity=Severity.INFO if same else None)
