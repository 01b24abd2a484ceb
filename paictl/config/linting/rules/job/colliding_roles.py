"""Two task roles become the same name in Kubernetes.

Why: names are lower-cased and everything but letters and digits is dropped, so that `ps_1` and `PS1` share the names of
their pods; nobody checks it.

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
    -  train:
    +  ps_1:
    @@
         commands: [python3 train.py]
    +  PS1:
    +    dockerImage: image
    +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    +    commands: [python3 train.py]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import JobRole, job_of, pod_name_part


@rule("JOB608", "colliding-roles", ERROR)
def check(document: Document) -> Findings:
    """Every task role after the first of its shortened name."""
    first: dict[str, JobRole] = {}
    for role in job_of(document).roles.values():
        short = pod_name_part(role.name)
        earlier = first.setdefault(short, role)
        if short and earlier is not role:
            message = f"task roles {earlier.name!r} and {role.name!r} both become {short!r} in names of pods"
            yield Finding(role.key, message, "rename one of the two")
