"""An entry of the template list has the suffix `.template`.

Why: the suffix is added by the deployment, which would look for `….template.template`.

Passes::

    # pylon.service.yaml
    cluster-type: [k8s]
    prerequisite: [cluster-configuration]
    template-list: [pylon.yaml, start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    deploy-rules:
    - in: pai-master

Fails with::

    # pylon.service.yaml
    -template-list: [pylon.yaml, start.sh]
    +template-list: [pylon.yaml.template, start.sh]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.service import service_of


@rule("GRF803", "template-suffix", ERROR)
def check(document: Document) -> Findings:
    """Every entry with the suffix."""
    for item in service_of(document).templates:
        if item.text.endswith(".template"):
            bare = item.text.removesuffix(".template")
            edits = (Edit(item, bare),) if item.plain else ()
            yield Finding(
                item, f"{item.text!r} has the suffix .template, which is added anyway", f"write {bare}", edits
            )
