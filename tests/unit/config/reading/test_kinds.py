"""Which kind a file is taken for."""

from __future__ import annotations

import pytest

from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_bytes

JOB = "protocolVersion: 2\nname: a\ntaskRoles: {}\n"
LAYOUT = "machine-sku: {}\nmachine-list: []\n"


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("anything.yaml", JOB, FileKind.JOB),
        ("hived-demo.yaml", JOB, FileKind.JOB),
        ("services-configuration.yaml", "rest-servr: {}\n", FileKind.SERVICES),
        ("services-configuration.yaml", "", FileKind.SERVICES),
        ("services-configuration.yaml", "cluster: {}\nmachine-list: []\nmachine-sku: {}\n", FileKind.SERVICES),
        ("mine.yaml", "rest-server: {}\n", FileKind.SERVICES),
        ("tkestack.yaml", "cluster: {apiServers: []}\n", FileKind.UNKNOWN),
        ("compose.yaml", "prometheus: {}\nnetworks: {}\n", FileKind.UNKNOWN),
        ("ours.yaml", "cluster: {}\nprometheus: {}\n", FileKind.SERVICES),
        ("layout/config/layout.yaml", LAYOUT, FileKind.LAYOUT),
        ("old.yaml", "user: me\npassword: mine\n", FileKind.CONFIG),
        ("x.service.yaml", "cluster-type: [k8s]\n", FileKind.SERVICE),
        ("src/pylon/deploy/service.yaml", "start-script: start.sh\n", FileKind.SERVICE),
        ("notes.yaml", "shopping: [milk]\n", FileKind.UNKNOWN),
    ],
)
def test_name_and_content_tell_the_kind(path: str, text: str, kind: FileKind) -> None:
    assert load_bytes(path, text.encode())[0].kind is kind


@pytest.mark.parametrize("path", ["defaults-x-x.yaml", "src/x/config/x.yaml"])
@pytest.mark.parametrize(
    "text", ["# nothing but a comment\n", "enabled: false\n", "OIDC: false\ngroup-manager: {}\n", "user: me\ndb: x\n"]
)
def test_a_default_section_is_told_by_where_it_stands(path: str, text: str) -> None:
    assert load_bytes(path, text.encode())[0].kind is FileKind.SERVICE_DEFAULTS


@pytest.mark.parametrize("path", ["config/x.yaml", "src/x/config/y.yaml", "x.yaml"])
def test_elsewhere_a_lone_section_is_unknown(path: str) -> None:
    assert load_bytes(path, b"enabled: false\n")[0].kind is FileKind.UNKNOWN
