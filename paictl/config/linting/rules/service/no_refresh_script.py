"""A service cannot be refreshed, because it names no refresh script.

Why: refreshing reads the key without asking whether it is there; a KeyError ends the refresh of this service and of all
that come after it. A description without any script is one of paictl's own, which needs none.

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
    -refresh-script: refresh.sh
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule


@rule("GRF801", "no-refresh-script", WARNING)
def check(document: Document) -> Findings:
    """The other scripts of a description without refresh-script."""
    at = document.top.key("delete-script") or document.top.key("start-script")
    if at is not None and "refresh-script" not in document.top:
        yield Finding(at, "there is no refresh-script beside it", "add refresh-script: the script that applies changes")
