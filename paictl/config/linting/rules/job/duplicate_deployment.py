"""Two deployments have the same name.

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
       taskRoles:
    +    train: {postCommands: [sleep 9]}
    +- name: quick
    +  taskRoles:
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import job_of
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import place_of


@rule("JOB605", "duplicate-deployment", ERROR)
def check(document: Document) -> Findings:
    """Every deployment after the first of its name."""
    first: dict[str, ScalarNode] = {}
    for name, _ in job_of(document).deployments:
        earlier = first.setdefault(name.text, name)
        if earlier is not name:
            line = place_of(earlier).line
            yield Finding(name, f"deployment {name.text!r} stands twice, first in line {line}", "rename one of the two")
