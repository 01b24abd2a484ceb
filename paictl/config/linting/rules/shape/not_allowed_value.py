"""A value is none of those that are understood.

Why: the old tools compare with a fixed list and silently take the default, or refuse the file without saying where.

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
    -type: job
    +type: jobs
"""

from __future__ import annotations

from paictl.config.linting.repairs import written
from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, of_keyword, shown
from paictl.config.reading.nodes import ScalarNode
from paictl.words import nearest


@rule("SHP105", "not-allowed-value", ERROR)
def check(document: Document) -> Findings:
    """Every value outside the list that the schema gives."""
    for violation in of_keyword(document, "enum", "const"):
        allowed = [violation.wanted] if violation.keyword == "const" else list(violation.wanted)
        node = violation.node
        values = {str(value).lower() if isinstance(value, bool) else str(value): value for value in reversed(allowed)}
        names = list(reversed(values))
        near = nearest(node.text, names) if isinstance(node, ScalarNode) else None
        listed = ", ".join(names)
        wanted, which = (f"one of: {listed}", f"none of: {listed}") if len(names) > 1 else (listed, f"not {listed}")
        yield Finding(
            node,
            f"{dotted(violation.path)} is {shown(node)}, which is {which}",
            f"did you mean {near!r}?" if near else f"write {wanted}",
            (Edit(node, written(values[near])),) if near and isinstance(node, ScalarNode) and node.plain else (),
        )
