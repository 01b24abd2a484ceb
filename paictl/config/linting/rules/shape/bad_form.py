"""A value is not of the form that is needed.

Why: names, addresses and versions end up as names of Kubernetes objects or in generated files, which refuse other forms
far away from the line that you wrote.

Passes::

    # job.yaml
    protocolVersion: 2
    name: mnist_1
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]

Fails::

    # job.yaml
    protocolVersion: 2
    name: mnist no. 1
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rules.shape.words import dotted, of_keyword, shown
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "SHP107"
NAME = "bad-form"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Every value that a pattern of the schema refuses; the schema's `x-form` says the form in words."""
    for violation in of_keyword(document, "pattern", "format"):
        form = violation.schema.get("x-form") or f"of the form {violation.wanted}"
        yield Finding(
            violation.node,
            f"{dotted(violation.path)} is {shown(violation.node)}, which is not {form}",
            violation.schema.get("description", f"write {form}").rstrip("."),
        )
