"""Certificates of kube-scheduler and the extender: made once, kept, renewed in time."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.cluster.manifests.certificates import (
    AUTHORITY_DAYS,
    DAYS,
    CertificateSet,
    certificate_set,
    kept_in,
    renewal_is_due,
    renewed,
)
from paictl.errors import PaictlError

NAME = "hivedscheduler-extender.paictl-system.svc"
DAY = 86400


@pytest.fixture(scope="module")
def made() -> CertificateSet:
    return renewed(None, NAME, time.time())


def test_good_ones_are_kept(made: CertificateSet) -> None:
    assert renewed(made, NAME, time.time() + 0.6 * DAYS * DAY) == made
    assert [renewal_is_due(made, NAME, time.time() + share * DAYS * DAY) for share in (0.6, 0.7)] == [False, True]


def test_less_than_a_third_of_the_life_renews_what_the_same_authority_signs(made: CertificateSet) -> None:
    now = time.time() + 0.7 * DAYS * DAY
    again = renewed(made, NAME, now)
    assert (again.ca_crt, again.ca_key) == (made.ca_crt, made.ca_key), "old processes trust the new certificates"
    assert {again.server_crt, again.client_crt, again.server_key, again.client_key}.isdisjoint(
        {made.server_crt, made.client_crt, made.server_key, made.client_key}
    )
    assert again.fingerprint != made.fingerprint


def test_an_authority_that_ends_is_made_anew(made: CertificateSet) -> None:
    assert renewed(made, NAME, time.time() + 0.7 * AUTHORITY_DAYS * DAY).ca_crt != made.ca_crt


@pytest.mark.parametrize("field", ["ca_crt", "ca_key", "server_crt", "server_key", "client_crt"])
def test_what_is_damaged_or_of_another_authority_is_made_anew(made: CertificateSet, field: str) -> None:
    for text in ("", "nonsense", getattr(renewed(None, NAME, time.time()), field)):
        found = renewed(replace(made, **{field: text}), NAME, time.time() + 0.7 * DAYS * DAY)
        assert renewed(found, NAME, time.time()) == found, "now they fit together"


def test_another_name_needs_another_certificate(made: CertificateSet) -> None:
    assert renewed(made, "hivedscheduler-extender.elsewhere.svc", time.time()).server_crt != made.server_crt


def test_they_are_kept_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    path = tmp_path / "state" / "paictl-system.json"
    before = os.umask(0)
    try:
        found = kept_in(path, NAME, time.time())
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert kept_in(path, NAME, time.time()) == found
    assert certificate_set(json.loads(path.read_text())) == found
    path.write_text("{")
    with pytest.raises(PaictlError, match="cannot be read"):
        kept_in(path, NAME, time.time())


def test_without_openssl_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PaictlError, match="openssl is not installed") as error:
        renewed(None, NAME, time.time())
    assert "--no-tls" in str(error.value.hint)
