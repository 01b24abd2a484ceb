"""Service settings: secrets stay secret, and annotations of the schema are found."""

from __future__ import annotations

import pytest

from paictl.config.models.services import described_keys, services_of
from paictl.config.reading.load import load_memory
from tests.unit.config.cases import problems_of

NAME = "services-configuration.yaml"
REST = "rest-server: {default-pai-admin-username: root-of-pai, default-pai-admin-password: %s, jwt-secret: %s}\n"


@pytest.mark.parametrize("secret", ["PAI-Secret", "Password", "HelloPAI", "123456", "[rootpass]", "'<hunter2>'"])
def test_no_message_shows_a_secret(secret: str) -> None:
    problems = problems_of({NAME: (REST % (secret, secret)).encode()})
    assert len(problems) >= 2
    bare = secret.strip("[]'<>")
    for problem in problems:
        assert bare not in f"{problem.message} {problem.hint or ''}"


def test_a_well_known_secret_is_known_in_any_case() -> None:
    problems = problems_of({NAME: (REST % ("PassWord", "Pai-Secret")).encode()})
    assert [problem.rule for problem in problems] == ["SVC705", "SVC705"]


def test_keys_come_with_their_schema_from_the_outside_in() -> None:
    text = (
        REST % ("a-1", "b-1")
        + "authentication: {group-manager: {grouplist: [{groupname: x}]}}\nnobody: {knows: this}\n"
    )
    document = load_memory({NAME: text.encode()}).bundles[0].documents[0]
    paths = [path for path, _, _ in described_keys(document)]
    assert paths.index(("authentication",)) < paths.index(("authentication", "group-manager"))
    assert ("authentication", "group-manager", "grouplist", 0, "groupname") in paths
    assert not any(path[0] == "nobody" for path in paths)


def test_ports_count_defaults_and_only_the_optional_services_that_are_written() -> None:
    document = load_memory({NAME: (REST % ("a-1", "b-1") + "docker-cache: {}\n").encode()}).bundles[0].documents[0]
    labels = {port.label: port.number for port in services_of(document).ports}
    assert labels["grafana.port"] == 3000
    assert labels["docker-cache.service_nodeport"] == 30500
    assert "marketplace-db.port" not in labels
