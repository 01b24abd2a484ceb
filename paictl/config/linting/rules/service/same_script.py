"""Starting a service and stopping or deleting it run the same script.

Why: most likely a slip of copy and paste: stopping the service starts it.

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
    -stop-script: stop.sh
    +stop-script: start.sh
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.service import service_of


@rule("GRF807", "same-script", WARNING)
def check(document: Document) -> Findings:
    """A stop or delete script that is the start script."""
    scripts = service_of(document).scripts
    start = scripts.get("start-script")
    for key in ("stop-script", "delete-script"):
        script = scripts.get(key)
        if start is not None and script is not None and script.text == start.text:
            yield Finding(script, f"{key} runs {script.text!r}, as start-script does", "name the script that stops it")
