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

Fails with::

    # job.yaml
    -name: mnist_1
    +name: mnist no. 1
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, of_keyword, shown


@rule("SHP107", "bad-form", ERROR)
def check(document: Document) -> Findings:
    """Every value that a pattern of the schema refuses; the schema's `x-form` says the form in words."""
    for violation in of_keyword(document, "pattern", "format"):
        form = violation.schema.get("x-form") or f"of the form {violation.wanted}"
        yield Finding(
            violation.node,
            f"{dotted(violation.path)} is {shown(violation.node)}, which is not {form}",
            violation.schema.get("description", f"write {form}").rstrip("."),
        )
