"""The tag of OpenPAI's images is none that a registry can have.

Why: the tag ends up behind the name of every image; a registry refuses what is no tag, and every service stays in
ImagePullBackOff.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: openpai:v1.8.1
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.settings import filled

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@rule("CFG305", "bad-image-tag", ERROR)
def check(document: Document) -> Findings:
    """A tag with other characters, or longer than 128."""
    tag = filled(document, "docker_image_tag")
    if tag is None or _TAG.fullmatch(tag.text):
        return
    bare = tag.text.rpartition(":")[2].strip()
    message = f"docker_image_tag is {abridged(tag.text)}, which is no image tag"
    hint = "use letters, digits, '_', '.' and '-', at most 128, not beginning with '.' or '-'"
    yield Finding(tag, message, f"write the tag alone: {bare}" if _TAG.fullmatch(bare) else hint)
