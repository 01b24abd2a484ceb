"""A key for the scheduler stands where nobody reads it.

Why: OpenPAI carries `extras` along unread, and reads flags such as lazyPreemptionEnable for the whole job only, beside
taskRoles. Elsewhere the wish is lost without a word: the job is killed where it should have kept its devices.

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
      hivedScheduler: {lazyPreemptionEnable: true}

Fails with::

    # job.yaml
    -  hivedScheduler: {lazyPreemptionEnable: true}
    +  lazyPreemptionEnable: true
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of

FLAGS = ("lazyPreemptionEnable", "gangReleaseEnable", "ignoreK8sSuggestedNodes")
OF_JOB = ("jobPriorityClass", *FLAGS, "taskRoles")
OF_ROLE = ("skuType", "pinnedCellId", "affinityGroupName")


@rule("JOB626", "misplaced-wish", WARNING)
def check(document: Document) -> Findings:
    """Every key of `extras` that means something only in `extras.hivedScheduler`, and flags of the job in a role."""
    job = job_of(document)
    extras = job.top.mapping("extras")
    for key, place in [(key, "") for key in OF_JOB] + [(key, ".taskRoles.ROLE") for key in OF_ROLE]:
        at = extras.key(key)
        if at is not None:
            yield Finding(at, f"{key} has no effect in extras", f"move it to extras.hivedScheduler{place}")
    for role in job.roles.values():
        for key in FLAGS:
            at = role.wishes.key(key)
            if at is not None:
                message = f"{key} has no effect in a task role, but for the whole job"
                yield Finding(at, message, "move it to extras.hivedScheduler, beside taskRoles")
