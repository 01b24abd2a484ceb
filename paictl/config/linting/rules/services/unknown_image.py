"""An image is named that none of paictl's services uses.

Why: services ask for their images by the names of `templates/images.yaml`, so a reference under another name is never
used: the service starts with the image that comes with paictl.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    images:
      node-exporter: registry.example/monitoring/node-exporter:v1.10.2

Fails with::

    # services-configuration.yaml
    -  node-exporter: registry.example/monitoring/node-exporter:v1.10.2
    +  node-exprter: registry.example/monitoring/node-exporter:v1.10.2
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.images import load_images


@rule("SVC719", "unknown-image", WARNING)
def check(document: Document) -> Findings:
    """Every name in the section of images that is in no template."""
    named = document.top.mapping("images")
    if not named:
        return
    known = load_images()
    for entry in named:
        if entry.key.text not in known:
            hint = suggested(entry.key, known, f"the names are: {', '.join(known)}")
            yield Finding(entry.key, f"no service uses an image {entry.key.text!r}", *hint)
