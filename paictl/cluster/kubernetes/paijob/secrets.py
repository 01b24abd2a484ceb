"""The values of a job's secrets: in a Secret of their own, from the request to the controller, and nowhere else."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

WHOLE: Final = "secrets.json"
"""The key that holds all of them; a Secret made by hand may have a key each instead."""
PASSWORDS: Final = "passwords.json"
"""Passwords of registries that were written into the job itself, by the name of the prerequisite."""


def values_of(data: Mapping[str, object]) -> dict[str, Any]:
    """What of a job must not be in its `PaiJob`: by key of the Secret; empty if nothing."""
    secrets = data.get("secrets")
    found: dict[str, Any] = {WHOLE: dict(secrets)} if isinstance(secrets, Mapping) and secrets else {}
    passwords = dict(_passwords(data))
    return {**found, PASSWORDS: passwords} if passwords else found


def _passwords(data: Mapping[str, object]) -> list[tuple[str, str]]:
    images = data.get("prerequisites")
    found = []
    for image in images if isinstance(images, list) else ():
        auth = image.get("auth") if isinstance(image, Mapping) else None
        word = auth.get("password") if isinstance(auth, Mapping) else None
        if isinstance(word, str) and not word.lstrip().startswith("<%"):
            found.append((str(image.get("name")), word))
    return found


def secret_of(name: str, values: Mapping[str, Any], about: Json) -> Json:
    """A Secret with these values."""
    data = {key: base64.b64encode(json.dumps(value).encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {**about, "name": name}, "data": data}


def read_secret(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The secrets and the passwords of a Secret; raises `ValueError` for one that nobody of ours has written."""
    texts = {key: base64.b64decode(value).decode() for key, value in (found.get("data") or {}).items()}
    whole, passwords = json.loads(texts.pop(WHOLE, "{}")), json.loads(texts.pop(PASSWORDS, "{}"))
    if not isinstance(whole, dict) or not isinstance(passwords, dict):
        raise ValueError(WHOLE)
    return {**texts, **whole}, passwords
