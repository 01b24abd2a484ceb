"""A setting still holds what the template put there.

Why: OpenPAI fills templates with whatever stands there: it logs in as `forexample` and pulls images with the tag `<%
latest-release %>`.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: forexample
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.placeholders import is_placeholder, scalars_below


@rule("CFG301", "unfilled-setting", ERROR)
def check(document: Document) -> Findings:
    """Each value, at any depth, that is a placeholder."""
    for path, scalar in scalars_below(document.top):
        if is_placeholder(scalar.text):
            secret = "password" in path or path.endswith("_key")
            shown = "a placeholder" if secret else f"the placeholder {abridged(scalar.text)}"
            yield Finding(scalar, f"{path} is still {shown}", f"write your own {path}, or remove the line")
