"""A prerequisite does not have what its type needs.

Why: an image, a script and an output have one `uri`, data has a list of them, and only images have `auth`; the server
refuses other shapes. Newer releases let plugins do without `uri`.

Passes::

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    - {name: cifar, type: data, uri: [https://example.com/cifar.tar.gz]}
    taskRoles:
      train:
        data: cifar
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]

Fails with::

    # job.yaml
    -- {name: cifar, type: data, uri: [https://example.com/cifar.tar.gz]}
    +- {name: cifar, type: data, uri: https://example.com/cifar.tar.gz}
    @@
    -    data: cifar
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.job import job_of
from paictl.config.reading.nodes import ScalarNode, SequenceNode


@rule("JOB621", "prerequisite-form", ERROR)
def check(document: Document) -> Findings:
    """Every uri that is missing or of the other shape, and auth where nobody logs in."""
    for one in job_of(document).prerequisites:
        if not one.known:
            continue
        name, uri = f"prerequisite {one.name.text!r}", one.node.get("uri")
        if uri is None and "plugin" not in one.node:
            yield Finding(one.name, f"{name} of type {one.type} lacks the key 'uri'", "add uri: where it is")
        elif isinstance(uri, ScalarNode) and uri.value is not None and one.type == "data":
            edits = (Edit(uri, f"[{uri.source.text[uri.start : uri.end]}]"),) if uri.style not in ("|", ">") else ()
            yield Finding(uri, f"uri of {name} must be a list, because it is data", "put it in brackets", edits)
        elif isinstance(uri, SequenceNode) and one.type != "data":
            yield Finding(uri, f"uri of {name} must be one string, not a list", f"a {one.type} has one address")
        if "auth" in one.node and one.type != "dockerimage":
            message = f"{name} of type {one.type} has 'auth', which only images have"
            yield Finding(one.node.key("auth") or one.name, message, "remove it")
