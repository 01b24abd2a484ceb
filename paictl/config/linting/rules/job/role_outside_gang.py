"""Some task roles of a gang are in affinity groups and others are not.

Why: as soon as one role names a group, HiveD forms no group over the whole job: each task of a role without a group is
placed alone, and runs before the others have their devices.

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
      ps:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]
    extras:
      hivedScheduler:
        taskRoles:
          train: {affinityGroupName: all}
          ps: {affinityGroupName: all}

Fails with::

    # job.yaml
    -      ps: {affinityGroupName: all}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB622", "role-outside-gang", WARNING)
def check(document: Document) -> Findings:
    """Every role without a group beside roles with one, unless the job is no gang."""
    job = job_of(document)
    grouped = [role for role in job.roles.values() if role.group is not None]
    if not job.gang or not grouped:
        return
    for role in job.roles.values():
        if role.group is None:
            message = f"task role {role.name!r} is in no affinity group, so that its tasks do not wait for the gang"
            group = grouped[0].group.text if grouped[0].group else ""
            yield Finding(role.key, message, f"give it affinityGroupName: {group}, or set gangAllocation to false")
