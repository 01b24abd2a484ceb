"""A job has more tasks than any cluster can hold.

Why: every task is a pod, and Kubernetes is made for at most 150,000 pods (kubernetes.io, "Considerations for large
clusters"). Such a number is a slip of the finger, and the server that takes the job has to make a pod of each.

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
    +    instances: 1000000000000
"""

from __future__ import annotations

from typing import Final

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import job_of

MOST_PODS: Final = 150_000
"""Pods of the largest cluster that Kubernetes is made for."""


@rule("JOB628", "too-many-tasks", ERROR)
def check(document: Document) -> Findings:
    """The largest role of a job whose roles together have too many tasks."""
    roles = job_of(document).roles.values()
    tasks = sum(role.instances for role in roles)
    if tasks > MOST_PODS:
        largest = max(roles, key=lambda role: role.instances)
        message = f"the job has {tasks:,} tasks, and no cluster holds more than {MOST_PODS:,} pods"
        at = largest.node.get("instances") or largest.key
        yield Finding(at, message, "use fewer instances, or several jobs")
