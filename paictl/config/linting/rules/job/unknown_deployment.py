"""The default deployment is none of the job's deployments.

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
    deployments:
    - name: quick
      taskRoles:
        train: {preCommands: [sleep 1]}
    defaults: {deployment: quick}

Fails::

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
    deployments:
    - name: quick
      taskRoles:
        train: {preCommands: [sleep 1]}
    defaults: {deployment: quik}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import job_of
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity
from paictl.words import listed

ID = "JOB602"
NAME = "unknown-deployment"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The name under defaults.deployment, if nothing bears it."""
    job = job_of(document)
    wanted = job.top.mapping("defaults").text("deployment")
    names = [name.text for name, _ in job.deployments]
    if wanted is None or wanted.text in names:
        return
    otherwise = f"name one of: {listed(names)}" if names else "remove the key, or add the deployment"
    yield Finding(wanted, f"there is no deployment {wanted.text!r}", *suggested(wanted, names, otherwise))
