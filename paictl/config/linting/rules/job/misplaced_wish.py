"""A key for the scheduler stands in `extras` instead of `extras.hivedScheduler`.

Why: `extras` is carried along unread, so the wish is lost without a word: the job runs with the default priority, on
any device type, and is killed where it should have kept its devices.

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

OF_JOB = ("jobPriorityClass", "lazyPreemptionEnable", "taskRoles")
OF_ROLE = ("skuType", "pinnedCellId", "affinityGroupName", "gangReleaseEnable", "ignoreK8sSuggestedNodes")


@rule("JOB626", "misplaced-wish", WARNING)
def check(document: Document) -> Findings:
    """Every key of `extras` that means something only in `extras.hivedScheduler`."""
    extras = job_of(document).top.mapping("extras")
    for key, place in [(key, "") for key in OF_JOB] + [(key, ".taskRoles.ROLE") for key in OF_ROLE]:
        at = extras.key(key)
        if at is not None:
            yield Finding(at, f"{key} has no effect in extras", f"move it to extras.hivedScheduler{place}")
