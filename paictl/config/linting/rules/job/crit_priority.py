"""The priority class is `crit`, which OpenPAI's own server refuses.

Why: OpenPAI knows a number for `crit` (120) but its schema lets only prod, test and oppo through. paictl takes it.

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
        jobPriorityClass: prod

Fails with::

    # job.yaml
    -    jobPriorityClass: prod
    +    jobPriorityClass: crit
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB612", "crit-priority", WARNING)
def check(document: Document) -> Findings:
    """The priority class, if it is crit."""
    priority = job_of(document).hived.text("jobPriorityClass")
    if priority is not None and priority.text == "crit":
        message = "OpenPAI's server refuses the priority class crit; only paictl runs it"
        yield Finding(priority, message, "write prod, unless the job is for paictl only")
