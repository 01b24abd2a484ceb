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

Fails with::

    # job.yaml
    -defaults: {deployment: quick}
    +defaults: {deployment: quik}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import job_of
from paictl.words import listed


@rule("JOB602", "unknown-deployment", ERROR)
def check(document: Document) -> Findings:
    """The name under defaults.deployment, if nothing bears it."""
    job = job_of(document)
    wanted = job.top.mapping("defaults").text("deployment")
    names = [name.text for name, _ in job.deployments]
    if wanted is None or wanted.text in names:
        return
    otherwise = f"name one of: {listed(names)}" if names else "remove the key, or add the deployment"
    yield Finding(wanted, f"there is no deployment {wanted.text!r}", *suggested(wanted, names, otherwise))
