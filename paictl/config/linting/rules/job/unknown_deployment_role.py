"""A deployment has commands for a task role that the job does not have.

Why: the server passes over them without a word, so that the commands never run.

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

Fails with::

    # job.yaml
    -    train: {preCommands: [sleep 1]}
    +    trian: {preCommands: [sleep 1]}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import job_of
from paictl.words import listed


@rule("JOB603", "unknown-deployment-role", WARNING)
def check(document: Document) -> Findings:
    """Every key under deployments[].taskRoles that is no task role."""
    job = job_of(document)
    for name, deployment in job.deployments:
        around = deployment.mapping("taskRoles")
        free = [role for role in job.roles if role not in around]
        for entry in around:
            if job.roles and entry.name not in job.roles:
                message = f"deployment {name.text!r} has commands for {entry.name!r}, which is no task role"
                otherwise = f"name one of: {listed(job.roles)}"
                yield Finding(entry.key, message, *suggested(entry.key, free, otherwise))
