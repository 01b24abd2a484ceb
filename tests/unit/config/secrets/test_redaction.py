"""Secrets are not quoted in reports."""

from __future__ import annotations

import pytest

from paictl.config.linting.fix import fix
from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.report.codehosts import fingerprints
from paictl.config.linting.validate import validate
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.config.reading.source import Source
from paictl.config.secrets.redaction import redacted, redacted_line
from paictl.config.secrets.sealing import seal
from paictl.config.secrets.walk import walk


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password: admin # x", "password: ***** # x"),
        ('password: "admin-1" # x', 'password: "*******" # x'),
        ("  jwt-secret: 'a b'", "  jwt-secret: '* *'"),
        ("{user: a, password: b, tag: c}", "{user: a, password: *, tag: c}"),
        ('"docker_registry_password": x1', '"docker_registry_password": **'),
        ("docker_cache_azure_account_key: k", "docker_cache_azure_account_key: *"),
        ("password: a#b,c} # x", "password: ****** # x"),
        ('password: "a\\"b" # x', 'password: "**"*" # x'),
        ("password: 'it''s' # x", "password: '**''*' # x"),
        ("smbpwd: x", "smbpwd: *"),
        ("{a: b, secrets: {k: v, l: w}, m: n}", "{a: b, secrets: *** ** ** *}, m: n}"),
        ("secret-name: regsecret", "secret-name: regsecret"),
        ("user: operator", "user: operator"),
        ("password:", "password:"),
        ("password: # none", "password: # none"),
    ],
)
def test_values_of_secrets_are_starred_out(line: str, shown: str) -> None:
    assert redacted(line) == shown


@pytest.mark.parametrize("password", ["P@ss_w0rd", "471100", '"kelp\\\\Tundra"', "your_own-pass", "''", "0471100"])
@pytest.mark.parametrize("form", FORMATS)
def test_no_report_shows_a_password(form: str, password: str) -> None:
    text = f"user: operator\npassword: {password}\ndocker_image_tag: v1.8.1\n"
    report = validate(load_memory({"config.yaml": text.encode()}))
    assert report.problems
    bare = password.strip("\"'")
    assert not bare or bare not in plain(FORMATS[form](report))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password: |\n  kelp\n  tundra\n", ["password: |", "  ****", "  ******"]),
        ("password:\n  kelp # x\nuser: me\n", ["password:", "  **** * *", "user: me"]),
        ("secrets:\n  - key: kelp\n    other: tundra\nname: x\n", None),
        ("extras:\n  secret: >-\n\n    kelp\n  name: x\n", ["extras:", "  secret: >-", "", "    ****", "  name: x"]),
    ],
)
def test_what_stands_below_the_key_of_a_secret_is_starred_out(text: str, shown: list[str] | None) -> None:
    source = Source("job.yaml", text)
    lines = [redacted_line(source, number + 1) for number in range(len(text.splitlines()))]
    if shown is not None:
        assert lines == shown
    assert not any(word in line for line in lines for word in ("kelp", "tundra"))


def test_fingerprints_do_not_depend_on_a_secret() -> None:
    files = ({"config.yaml": f"user: u\npassword: 0{word}\n".encode()} for word in ("471100", "110074"))
    reports = [validate(load_memory(one)) for one in files]
    one, two = (list(fingerprints(report.problems)) for report in reports)
    assert one == two
    assert one


def test_a_secret_number_is_not_quoted_where_no_schema_knows_it() -> None:
    job = (
        b"protocolVersion: 2\nname: a\ntype: job\nsecrets: {key: 0471100}\n"
        b"prerequisites: [{type: dockerimage, name: i, uri: u}]\n"
        b"taskRoles: {r: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}, commands: [x]}}\n"
    )
    (problem,) = validate(load_memory({"job.yaml": job})).problems
    assert problem.rule == "TXT014"
    assert "4711" not in f"{problem.message} {problem.hint}"


KEYS = [
    *("api-key", "apikey", "apiKey", "access_key", "private-key", "account_key", "encryptionKey", "passphrase"),
    *("credential", "credentials", "bearer", "auth", "webhook-url", "slack_webhook", "password", "passwd", "smbpwd"),
    *(
        "clientSecret",
        "token",
        "key",
        "KEY",
        "ssh_key",
        "tlsKey",
        "shared-key",
        "master_key",
        "connectionString",
        "sas",
    ),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("key", KEYS)
def test_whatever_push_seals_no_report_and_no_diff_shows(key: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    text = f"user: op\npassword: Sesame-9\n{key}: TOPSECRET-2\nhost_daemon_port_start: '40000'\n"
    loaded = load_memory({"config.yaml": text.encode()})
    report = validate(loaded)
    assert any(problem.place.line == 3 for problem in report.problems)
    assert "TOPSECRET" not in plain(FORMATS[form](report))
    assert "TOPSECRET" not in seal(walk(text, FileKind.CONFIG)).text
    assert all("TOPSECRET" not in line for file in fix(loaded).changed for line in file.diff())


@pytest.mark.parametrize("key", ["database", "x", "uri"])
def test_a_password_in_an_address_is_no_more_shown_than_sealed(key: str) -> None:
    text = f"user: op\npassword: Sesame-9\n{key}: postgres://me:TOPSECRET-2@db/x?y=1\n"
    shown = plain(FORMATS["text"](validate(load_memory({"config.yaml": text.encode()}))))
    assert "postgres://me:***********@db/x?y=1" in shown
    assert "TOPSECRET" not in seal(walk(text, FileKind.CONFIG)).text


@pytest.mark.parametrize(
    "key", ["author", "authentication", "secret-name", "ssh_key_file_path", "token-ttl", "keyboard"]
)
def test_what_only_resembles_a_secret_is_shown(key: str) -> None:
    assert redacted(f"{key}: shown") == f"{key}: shown"


@pytest.mark.parametrize("key", ["monkey", "keyboard", "key-name", "ssh_key_path", "keys-file", "ssas"])
def test_a_key_that_only_contains_such_a_word_is_shown(key: str) -> None:
    assert redacted(f"{key}: shown") == f"{key}: shown"
