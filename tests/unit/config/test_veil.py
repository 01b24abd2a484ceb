"""Secrets are not quoted in reports."""

from __future__ import annotations

import pytest

from paictl.config.load import load_memory
from paictl.config.report import FORMATS, plain
from paictl.config.text import veiled
from paictl.config.validate import validate


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password: admin # x", "password: ***** # x"),
        ('password: "admin-1" # x', 'password: "*******" # x'),
        ("  jwt-secret: 'a b'", "  jwt-secret: '* *'"),
        ("{user: a, password: b, tag: c}", "{user: a, password: *, tag: c}"),
        ('"docker_registry_password": x1', '"docker_registry_password": **'),
        ("docker_cache_azure_account_key: k", "docker_cache_azure_account_key: *"),
        ("secret-name: regsecret", "secret-name: regsecret"),
        ("user: operator", "user: operator"),
        ("password:", "password:"),
        ("password: # none", "password: # none"),
    ],
)
def test_values_of_secrets_are_starred_out(line: str, shown: str) -> None:
    assert veiled(line) == shown


@pytest.mark.parametrize("password", ["P@ss_w0rd", "471100", '"kelp\\\\Tundra"', "your_own-pass", "''"])
@pytest.mark.parametrize("form", FORMATS)
def test_no_report_shows_a_password(form: str, password: str) -> None:
    text = f"user: operator\npassword: {password}\ndocker_image_tag: v1.8.1\n"
    report = validate(load_memory({"config.yaml": text.encode()}))
    assert report.problems
    bare = password.strip("\"'")
    assert not bare or bare not in plain(FORMATS[form](report))
