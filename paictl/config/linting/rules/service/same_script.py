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

Fails::

    # pylon.service.yaml
    cluster-type: [k8s]
    prerequisite: [cluster-configuration]
    template-list: [pylon.yaml, start.sh]
    start-script: start.sh
    stop-script: start.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    deploy-rules:
    - in: pai-master
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.service import service_of
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "GRF807"
NAME = "same-script"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """A stop or delete script that is the start script."""
    scripts = service_of(document).scripts
    start = scripts.get("start-script")
    for key in ("stop-script", "delete-script"):
        script = scripts.get(key)
        if start is not None and script is not None and script.text == start.text:
            yield Finding(script, f"{key} runs {script.text!r}, as start-script does", "name the script that stops it")
