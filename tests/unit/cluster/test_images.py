"""References of images: as published, from a private registry, one by one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from paictl.cluster.manifests.context import ImageReferences
from paictl.config.models.services import load_images


def images_of(services: dict[str, Any], version: str) -> ImageReferences:
    return ImageReferences(load_images(), version, services)


REFERENCE = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+:[A-Za-z0-9_][A-Za-z0-9_.-]*")


def test_every_image_has_a_registry_and_a_version() -> None:
    for name in load_images():
        reference = images_of({}, "1.2.3")(name)
        assert REFERENCE.fullmatch(reference), reference
        assert not reference.endswith(":latest")


def test_ours_has_the_version_of_paictl() -> None:
    assert images_of({}, "1.2.3.dev4")("paictl") == "localhost/paictl:1.2.3.dev4"


@pytest.mark.parametrize(
    ("registry", "reference"),
    [
        ({"domain": "docker.io", "namespace": "openpai", "tag": "v1.8.0"}, "quay.io/prometheus/prometheus:v3.11.3"),
        ({"domain": "public", "namespace": "openpai"}, "quay.io/prometheus/prometheus:v3.11.3"),
        ({}, "quay.io/prometheus/prometheus:v3.11.3"),
        (None, "quay.io/prometheus/prometheus:v3.11.3"),
        ({"domain": "docker.io", "namespace": "lab"}, "docker.io/lab/prometheus:v3.11.3"),
        ({"domain": "10.0.0.1:5000", "namespace": "lab/pai/"}, "10.0.0.1:5000/lab/pai/prometheus:v3.11.3"),
        ({"domain": "registry.lab", "namespace": ""}, "registry.lab/prometheus:v3.11.3"),
        (
            {"domain": "registry.lab", "namespace": "openpai", "tag": "v1.8.0"},
            "registry.lab/openpai/prometheus:v3.11.3",
        ),
    ],
)
def test_a_private_registry(registry: dict[str, str] | None, reference: str) -> None:
    assert images_of({"cluster": {"docker-registry": registry}}, "1")("prometheus") == reference


def test_one_image_of_ones_own_beats_the_registry() -> None:
    services = {"cluster": {"docker-registry": {"domain": "registry.lab"}}, "images": {"grafana": "other.lab/g:1"}}
    assert images_of(services, "1")("grafana") == "other.lab/g:1"
    assert images_of(services, "1")("paictl") == "registry.lab/paictl:1"


def test_an_unknown_image_says_what_was_meant() -> None:
    with pytest.raises(LookupError, match="did you mean 'prometheus'"):
        images_of({}, "1")("promethius")
