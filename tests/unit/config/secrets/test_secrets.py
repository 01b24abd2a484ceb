from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_bytes
from paictl.config.reading.nodes import to_data
from paictl.config.reading.schema import SCHEMA_NAMES, load_schema
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml
from paictl.config.secrets import sealing as secrets
from paictl.config.secrets.redaction import sounds_secret
from paictl.config.secrets.sealing import MAX_SECRETS, REMOVED, is_seal
from paictl.config.secrets.walk import SHOWN, SecretError, walk
from tests.conftest import ROOT
from tests.unit.config.yamltexts import texts

S = FileKind.SERVICES


def seal(text: str, kind: FileKind, *known: str) -> str:
    return secrets.seal(walk(text, kind), *(walk(other, kind) for other in known)).text


def mask(text: str, kind: FileKind) -> str:
    return secrets.mask(walk(text, kind)).text


def secret_paths(text: str, kind: FileKind) -> tuple[tuple[str | int, ...], ...]:
    return tuple(secret.path for secret in walk(text, kind).secrets)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COST", (4, 1, 1))


def data_of(text: str) -> Any:
    tree = parse_yaml(Source("text", text))
    assert not tree.fatal, tree.issues
    return None if tree.root is None else to_data(tree.root)


SERVICES = """\
# The administrator.
rest-server:
  default-pai-admin-username: admin
  default-pai-admin-password: "Gurke-4711"   # old one: Gurke-4711
  jwt-secret: 'it''s quiet'
  # log_azure_storage_account_key: c2VjcmV0==
cluster:
  docker-registry: {username: me, password: hunter22, tag: v1.8.0}
log-manager:
  jwt_secret: |  # made by hand
    first line
    second line

  token_expired_second: 60
unknown-service:
  api_key: AKIA123
  mirror: https://bob:pa55w0rd@mirror.example/
  page: https://mirror.example/
postgresql:
  passwd: 123456
"""
CLEAR = (
    "Gurke-4711",
    "it's quiet",
    "it''s quiet",
    "c2VjcmV0",
    "hunter22",
    "first line",
    "AKIA123",
    "pa55w0rd",
    "123456",
)


def test_no_byte_of_a_secret_is_in_the_sealed_text() -> None:
    for text in (seal(SERVICES, S), mask(SERVICES, S)):
        assert not [word for word in CLEAR if word in text]


def test_everything_else_stays_where_it_is() -> None:
    text = seal(SERVICES, S)
    before, after = SERVICES.splitlines(), text.splitlines()
    assert len(before) == len(after)
    changed = [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if old != new]
    assert changed == [4, 5, 6, 8, 10, 11, 12, 16, 17, 20]
    assert after[0] == "# The administrator."
    assert after[5] == f"  # log_azure_storage_account_key: {REMOVED}"
    assert after[9].endswith("# made by hand")
    data = data_of(text)
    assert data["log-manager"]["token_expired_second"] == 60
    assert data["cluster"]["docker-registry"]["tag"] == "v1.8.0"
    assert data["unknown-service"]["page"] == "https://mirror.example/"
    assert is_seal(data["postgresql"]["passwd"])


def test_masking_shows_one_word_for_clear_and_sealed_secrets() -> None:
    assert mask(SERVICES, S) == mask(seal(SERVICES, S), S)
    assert data_of(mask(SERVICES, S))["rest-server"]["jwt-secret"] == SHOWN


def test_sealing_twice_gives_the_same_seals_only_with_the_text_before() -> None:
    first = seal(SERVICES, S)
    assert seal(SERVICES, S, first) == first
    assert seal(first, S, first) == first
    assert seal(SERVICES, S) != first


def test_only_a_changed_secret_gets_another_seal() -> None:
    text = seal(SERVICES, S)
    second = data_of(seal(SERVICES.replace("hunter22", "hunter23"), S, text))
    first = data_of(text)
    assert second["rest-server"] == first["rest-server"]
    assert second["cluster"]["docker-registry"]["password"] != first["cluster"]["docker-registry"]["password"]


def test_a_number_and_its_digits_in_quotes_are_different_secrets() -> None:
    first = seal("postgresql: {passwd: 123456}\n", S)
    assert seal("postgresql: {passwd: '123456'}\n", S, first) != first


def test_a_seal_of_another_cluster_or_a_damaged_one_is_refused_without_showing_it() -> None:
    text = seal("postgresql: {passwd: x}\n", S)
    with pytest.raises(SecretError, match=r"postgresql\.passwd has a seal that the cluster does not have"):
        seal(text, S)
    with pytest.raises(SecretError, match="has a seal"):
        seal(text.replace('"}', 'A"}'), S, text)


def test_what_paictl_shows_for_a_secret_is_no_secret_to_push() -> None:
    with pytest.raises(SecretError, match=r"postgresql\.passwd is <secret>, as paictl shows it"):
        seal("postgresql: {passwd: <secret>}\n", S)


def test_a_seal_of_another_cost_is_known_again_but_not_one_that_would_take_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = seal("password: x\n", FileKind.CONFIG)
    monkeypatch.setattr(secrets, "COST", (5, 2, 1))
    assert seal("password: x\n", FileKind.CONFIG, text) == text
    start = time.process_time()
    seal("password: x\n", FileKind.CONFIG, text.replace("scrypt:4:1:1", "scrypt:30:99:99"))
    assert time.process_time() - start < 1


def test_a_seal_may_move_within_a_file() -> None:
    text = seal("a: {token: x}\n", S)
    marker = data_of(text)["a"]["token"]
    assert data_of(seal(f"b: {{token: '{marker}'}}\n", S, text)) == {"b": {"token": marker}}


def test_cluster_settings_and_legacy_layouts_have_secrets_too() -> None:
    text = "user: admin\npassword: Gurke\nssh_key_file_path: /key\ndocker_registry_password: 'p q'\n"
    assert secret_paths(text, FileKind.CONFIG) == (("password",), ("docker_registry_password",))
    text = "machine-list:\n- hostname: a\n  password: x\n- {hostname: b, password: y}\n"
    assert secret_paths(text, FileKind.LAYOUT) == (("machine-list", 0, "password"), ("machine-list", 1, "password"))


def test_a_host_list_has_none() -> None:
    assert seal("password,10.0.0.1\n", FileKind.MASTER_CSV) == "password,10.0.0.1\n"


def test_empty_and_null_secrets_hide_nothing() -> None:
    text = "rest-server:\n  jwt-secret:\n  default-pai-admin-password: ''\npostgresql: {passwd: ~}\n"
    assert seal(text, S) == text


@pytest.mark.parametrize(
    "text",
    [
        "rest-server:\n  jwt-secret: GEHEIM1\n  jwt-secret: GEHEIM2\n",
        "a: 1\n---\nrest-server:\n  jwt-secret: GEHEIM1\n",
        "rest-server:\n  <<: {jwt-secret: GEHEIM1}\n  jwt-secret: GEHEIM2\n",
        "rest-server:\n  <<: [{jwt-secret: GEHEIM1}, {jwt-secret: GEHEIM2}]\n",
        "x: &a\n  jwt-secret: GEHEIM1\nrest-server: *a\n",
        "rest-server:\n  jwt-secret: &s GEHEIM1\nlog-manager:\n  jwt_secret: *s\n",
        "rest-server:\n  jwt-secret: !!str GEHEIM1\n",
        "rest-server:\n  jwt-secret: [GEHEIM1, {deep: GEHEIM2}]\n",
        "rest-server:\n  ? jwt-secret\n  : GEHEIM1\n",
        "rest-server:\n  jwt-secret: >-\n    GEHEIM1\n    GEHEIM2\n\n  server-port: 1\n",
        "rest-server:\n  jwt-secret: GEHEIM1\n    GEHEIM2\n",
        '{rest-server: {"jwt-secret": "GEHEIM1\n  GEHEIM2", server-port: 1}}\n',
        "\ufeffrest-server:\n  jwt-secret: GEHEIM1\n",
        "rest-server:\r\n  jwt-secret: |\r\n    GEHEIM1\r\n  server-port: 1\r\n",
        "? {password: GEHEIM1}\n: 1\n",
        "rest-server:\n  jwt-secret: GEHEIM1 # GEHEIM1, password=GEHEIM2\n",
        "a: |  # password: GEHEIM1\n  text\n",
        "a: b\n# 'password': \"GEHEIM 1\"\n",
        "clientSecret: GEHEIM1\nBearerToken: GEHEIM1\nmy_private_key: GEHEIM1\n",
        "rest-server:\n  jwt-secret: 'GEHEIM1'",
    ],
)
def test_no_way_of_writing_hides_a_secret(text: str) -> None:
    for sealed in (seal(text, S), mask(text, S)):
        assert "GEHEIM" not in sealed
        assert sealed.count("\n") == text.count("\n")
        assert walk(sealed.lstrip("\ufeff"), S).shape == walk(text.lstrip("\ufeff"), S).shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rest-server: {jwt-secret: [GEHEIM\n", "not readable"),
        (
            "name: &n GEHEIM\nrest-server: {jwt-secret: *n}\n",
            r"line 2: \*n makes one value both a secret and not a secret",
        ),
        ("rest-server: {jwt-secret: &n GEHEIM}\nname: *n\n", r"line 2: \*n makes one value both a secret"),
        ("a: " + "[" * 70 + "]" * 70, "deeper than 64"),
        ("".join(f"k{n}: {{password: GEHEIM{n}}}\n" for n in range(MAX_SECRETS + 1)), "has 257 secrets"),
    ],
)
def test_what_cannot_be_sealed_for_sure_is_refused_without_a_word_of_it(text: str, message: str) -> None:
    for act in (seal, mask):
        with pytest.raises(SecretError, match=message) as caught:
            act(text, S)
        assert "GEHEIM" not in f"{caught.value} {caught.value.hint} {caught.value!r}"


def test_a_secret_does_not_show_in_its_repr() -> None:
    found = walk(SERVICES, S)
    assert not [word for word in CLEAR if word in repr(found)]


def test_short_secrets_do_not_tear_comments_apart() -> None:
    assert (
        mask("password: ad # an admin made ad up\n", FileKind.CONFIG)
        == f'password: "{SHOWN}" # an admin made {REMOVED} up\n'
    )


def test_prose_about_secrets_stays() -> None:
    text = "# password: the one for sudo\nuser: a\n"
    assert mask(text, FileKind.CONFIG) == text


def test_the_seal_is_slow_and_salted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert secrets.COST[0] >= 14
    start = time.process_time()
    one, two = (data_of(seal("password: x\n", FileKind.CONFIG))["password"] for _ in range(2))
    assert time.process_time() - start > 0.02
    assert one != two


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)


NO_SECRETS = {
    "secret-name",
    "token_expired_second",
    "secrets",
    "secrets_encryption",
    "dependencies",
    "registry_credentials",
}


@pytest.mark.parametrize("kind", [FileKind.CONFIG, FileKind.LAYOUT, FileKind.SERVICES])
def test_the_schemas_mark_what_sounds_like_a_secret_and_nothing_that_does_not(kind: FileKind) -> None:
    for name, schema in properties(load_schema(SCHEMA_NAMES[kind])):
        if isinstance(schema, dict):
            marked = schema.get("x-secret") is True
            assert marked == (sounds_secret(name) and name not in NO_SECRETS), name


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(texts("note"), st.sampled_from([FileKind.CONFIG, FileKind.SERVICES, FileKind.UNKNOWN]))
def test_a_text_without_secrets_is_left_alone(drawn: Any, kind: FileKind) -> None:
    assert seal(drawn[0], kind) == drawn[0]


SECRET_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=4, max_size=12).map(
    lambda text: f"q{text}z"
)


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(SECRET_TEXT, st.sampled_from(["'", '"']), st.sampled_from(["\n", " # tail\n"]))
def test_any_secret_in_quotes_is_sealed_and_known_again(value: str, quote: str, tail: str) -> None:
    written = value.replace("'", "''") if quote == "'" else value.replace("\\", "\\\\").replace('"', '\\"')
    text = f"user: u\npassword: {quote}{written}{quote}{tail}docker_image_tag: v1\n"
    if data_of_or_none(text) != value:
        return
    sealed = seal(text, FileKind.CONFIG)
    assert written not in sealed
    assert seal(text, FileKind.CONFIG, sealed) == sealed
    assert data_of(sealed)["docker_image_tag"] == "v1"


def data_of_or_none(text: str) -> Any:
    tree = parse_yaml(Source("text", text))
    data = None if tree.fatal or tree.root is None else to_data(tree.root)
    return data.get("password") if isinstance(data, dict) else None


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/*.yaml")), ids=str)
def test_our_examples_can_be_sealed(path: Path) -> None:
    document = load_bytes(path.name, path.read_bytes())[0]
    if document.fatal:
        return
    sealed = seal(document.source.text, document.kind)
    assert all(is_seal(secret.value) for secret in walk(sealed, document.kind).secrets)
