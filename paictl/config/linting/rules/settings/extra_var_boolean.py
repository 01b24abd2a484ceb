"""A variable for Kubespray is a boolean, but reaches it as a string.

Why: OpenPAI puts every value of openpai_kubespray_extra_var in quotes: `true` becomes "True". Kubespray asserts that
several of its variables are real booleans and stops; others are true whatever the string says.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
    openpai_kubespray_extra_var:
      download_run_once: true
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.settings import EXTRA
from paictl.config.reading.nodes import ScalarNode


@rule("CFG315", "extra-var-boolean", WARNING)
def check(document: Document) -> Findings:
    """Each boolean among the variables."""
    for entry in document.top.mapping(EXTRA):
        value = entry.value
        if isinstance(value, ScalarNode) and isinstance(value.value, bool):
            message = f'{entry.name} reaches Kubespray as the string "{value.value}", not as a boolean'
            yield Finding(value, message, "set it in Kubespray's own inventory/pai/openpai.yml")
