"""A port label or a number of ports is one that the server refuses, or that it overwrites.

Why: a label becomes part of a variable's name (`PAI_PORT_LIST_…`): letters, digits and `_`, not beginning with a digit.
Every task gets a port for `ssh` and one for `http`, whatever the job says about them.

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
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tensorboard: 1}}
        commands: [python3 train.py]

Fails with::

    # job.yaml
    -    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tensorboard: 1}}
    +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1, ports: {tensor-board: 1}}
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.models.job import job_of

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_GIVEN = ("ssh", "http")


@rule("JOB620", "port-label", ERROR)
def check(document: Document) -> Findings:
    """Every label and number under resourcePerInstance.ports."""
    for role in job_of(document).roles.values():
        ports = role.resources.mapping("ports")
        for entry in ports:
            number = ports.integer(entry.name)
            if not _LABEL.match(entry.name):
                message = f"port label {entry.name!r} must be made of letters, digits and _"
                yield Finding(entry.key, message, "rename it, e.g. to tensorboard")
            elif number is not None and number < 1:
                message = f"task role {role.name!r} asks for {number} ports {entry.name!r}"
                yield Finding(entry.value, message, "write 1 or more, or remove the label")
            elif entry.name in _GIVEN and number not in (None, 1):
                message = f"every task gets exactly one port {entry.name!r}, whatever stands here"
                yield Finding(entry.key, message, "use another label", severity=Severity.WARNING)
