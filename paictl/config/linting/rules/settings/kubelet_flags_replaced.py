"""Flags for kubelet replace those that OpenPAI sets.

Why: kubelet_custom_flags is written a second time into the file for Kubespray, of which the last counts: OpenPAI's
own --image-pull-progress-deadline=10m is lost, and large images fail to pull.

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
    kubelet_custom_flags:
      serialize-image-pulls: "false"
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule

_OWN = "image-pull-progress-deadline"


@rule("CFG316", "kubelet-flags-replaced", WARNING)
def check(document: Document) -> Findings:
    """Flags without OpenPAI's own among them."""
    flags = document.top.mapping("kubelet_custom_flags")
    at = document.top.key("kubelet_custom_flags")
    if at is not None and len(flags) and _OWN not in flags:
        yield Finding(at, f"kubelet_custom_flags replaces OpenPAI's own --{_OWN}=10m", f"add {_OWN}: 10m")
