"""Secrets taken out of logs: planted ones of every form, and what a reader needs stays."""

from __future__ import annotations

import base64
import html
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.secrets.cleaning import MASK, Cleaner, secret_values

SECRET = "Planted-9f3a.Kq7"  # noqa: S105 - none
BODY = [*(f"{'MIIEplanted':a<64}" for _ in range(4)), "c2hvcnQ="]
KEY = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"])
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlcGxhbnRlZA"


@pytest.mark.parametrize(
    "line",
    [
        f"level=info password={SECRET} done",
        f'{{"level":"info","password":"{SECRET}","n":1}}',
        f'msg="{{\\"apiToken\\":\\"{SECRET}\\"}}" done',
        f"  default-pai-admin-password: {SECRET}",
        f"password: correct horse {SECRET}",
        f"GET /x Authorization: Bearer {SECRET}",
        f'header="Authorization: Basic {SECRET}" done',
        f"map[Accept:[*/*] Authorization:[Bearer {SECRET}] Host:[x]]",
        f"sent 'Proxy-Authorization': 'Basic {SECRET}'",
        f"Set-Cookie: session={SECRET}; Path=/",
        f"x-api-key: {SECRET}",
        f"proxying with bearer {SECRET}",
        f"pulling https://puller:{SECRET}@registry.example/v2/",
        f"pulling https://puller:{SECRET}@more@registry.example/v2/",
        f"clone https://{SECRET}{SECRET}@git.example/x",
        f"GET /hook?token={SECRET}&n=1 200",
        f"exec: login --password {SECRET} --user eve",
        f'exec: login --api-key "{SECRET}" --user eve',
        f"seal sealed:scrypt:4:1:1:{'A' * 22}:{SECRET.replace('.', '')}",
        f"tokens: [{SECRET}, other]",
        f"exec: login --password={SECRET} --user eve",
        f"exec: login -password={SECRET}",
        f'I1126 flags.go:64] FLAG: --client-secret="{SECRET}"',
        f'exec: ["login" "--password" "{SECRET}"]',
        f'{{\\"args\\":[\\"--token\\",\\"{SECRET}\\"]}}',
        f"password: |\n  {SECRET}\n  {SECRET}\nafter: x",
        f"password => {SECRET}",
        f"env: [{{name: DB_PASSWORD, value: {SECRET}}}]",
        f"- name: DB_PASSWORD\n  value: '{SECRET}'",
        f'said {{"name":"DB_PASSWORD","value":"{SECRET}"}}',
        f'Authorization: Digest username="a", nonce=1, response="{SECRET}"',
        f'Set-Cookie: a="{SECRET}"; b={SECRET}',
        f"clock-{JWT[:20]}{SECRET.replace('.', '')}.{JWT[-40:]}",
    ],
)
def test_a_planted_secret_goes(line: str) -> None:
    done = Cleaner().text(line)
    assert SECRET not in done
    assert SECRET.replace(".", "") not in done
    assert "more@" not in done
    assert MASK in done or "sealed" in done


@pytest.mark.parametrize(
    "line", [f"token {JWT} was shown", "push with ghp_" + "a1" * 15, "join abcdef.0123456789abcdef"]
)
def test_what_looks_like_a_token_goes(line: str) -> None:
    done = Cleaner().text(line)
    assert MASK in done
    assert not {"eyJ", "ghp_", "0123456789abcdef"} & {
        word for word in ("eyJ", "ghp_", "0123456789abcdef") if word in done
    }


@pytest.mark.parametrize(
    "text",
    [
        f"before\n{KEY}\nafter",
        "before " + KEY.replace("\n", "\\n") + " after",
        f"before\n{KEY.partition('c2hv')[0]}\nafter",  # the end was cut off
        KEY.partition("-----\n")[2] + "\nafter before",  # the beginning was
        "before\n" + "\n".join(KEY.splitlines()[1:4]) + "\nafter",  # both were
        json.dumps({"before": "after", "key": KEY}),
    ],
)
def test_a_private_key_goes_whole_or_in_pieces(text: str) -> None:
    done = Cleaner().text(text)
    assert "MIIEplanted" not in done
    assert "c2hvcnQ=" not in done
    assert "after" in done
    assert "before" in done


@pytest.mark.parametrize(
    "line",
    [
        'I1126 10:00:00.1 controller.go:12] "Synced" key="paictl-jobs/train-0" duration="12ms"',
        'MountVolume.SetUp failed for volume "tls" : secret "hivedscheduler-extender-tls" not found',
        'E1126 reflector.go:12] failed to list *v1.Pod: pods is forbidden: User "x" cannot list resource "pods"',
        "GET https://10.0.0.1:6443/api/v1/nodes?limit=500 200 12.5 ms",
        'GET /api/v1/namespaces/x/secrets: secrets is forbidden: User "y" cannot list',
        "flag --authorization-mode=Node,RBAC --service-account-key-file=/etc/kubernetes/pki/sa.pub",
        "queue key=ann~train secret=paictl-system/hivedscheduler-tls",
        '{"level":"warn","ts":"2026-11-22T05:00:00.0Z","msg":"apply took too long","took":"120ms"}',
    ],
)
def test_what_a_reader_needs_stays(line: str) -> None:
    assert Cleaner().text(line) == line


def test_a_known_secret_goes_bare_and_in_base64() -> None:
    cleaner = Cleaner(["hunter2hunter", "abc"])
    coded = base64.b64encode(b"hunter2hunter").decode()
    assert cleaner.text(f"login eve hunter2hunter, {coded} abc") == f"login eve {MASK}, {MASK} abc"
    assert cleaner.text("xhunter2hunterx") == f"x{MASK}x", "too long to be part of another word by chance"
    short = Cleaner(["hunter2"])
    assert short.text("xhunter2x") == "xhunter2x", "part of another word"
    assert short.text("pfx_hunter2_sfx") == f"pfx_{MASK}_sfx"


FORMS: dict[str, Callable[[str], str]] = {
    "json": lambda value: json.dumps(value)[1:-1],
    "go": lambda value: json.dumps(value)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c"),
    "path": quote,
    "query": quote_plus,
    "page": html.escape,
    "hex": lambda value: value.encode().hex(),
    "login": lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
    "basic": lambda value: base64.b64encode(f"eve:{value}\n".encode()).decode(),
    "line": lambda value: base64.b64encode(f"{value}\n".encode()).decode(),
    "url": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", ['Tr0ub4dor&3/<x"y', "Päss wörd\\9", "hunter2"])
def test_a_known_secret_goes_in_the_forms_that_programs_give_it(form: str, value: str) -> None:
    written = FORMS[form](value)
    done = Cleaner([value]).text(f"saw {written} there")
    assert MASK in done
    assert written not in done
    assert not any(written[at : at + 9] in done for at in range(4, len(written) - 12)), "nor pieces of it"


def test_what_is_below_a_key_that_sounds_secret_goes() -> None:
    data = {
        "passwords": ["X"],
        "token": {"x": ["X"], "n": 1},
        "key": "ann~train",
        "argv": ["run", "--password", "X", "--token=X", "Y"],
        "env": [{"name": "DB_PASSWORD", "value": "X"}, {"name": "PORT", "value": "Y"}],
    }
    done = Cleaner().data(data)
    assert '"X"' not in json.dumps(done)
    assert done == {
        "passwords": [MASK],
        "token": {"x": [MASK], "n": 1},
        "key": "ann~train",
        "argv": ["run", "--password", MASK, f"--token={MASK}", "Y"],
        "env": [{"name": "DB_PASSWORD", "value": MASK}, {"name": "PORT", "value": "Y"}],
    }


@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\n",
        "-eyJaaaaaaaa",
        'password: \\"a\\\\\\',
        "/token: ",
        "authorization:\n",
        "\n",
        "\\",
    ],
)
def test_a_hostile_line_ends(piece: str) -> None:
    """These took minutes, as each beginning was looked at again from the next one."""
    began = time.process_time()
    for lead in ("", 'password: \\"', "authorization:"):
        Cleaner().file(lead + piece * ((256 << 10) // len(piece)))
    assert time.process_time() - began < 20


def test_what_is_nested_beyond_measure_is_masked() -> None:
    """The bound is ours: Python's own differs from version to version, and with who calls."""
    assert Cleaner().file("[" * 200_000) == "[" * 200_000, "no JSON for any version"
    for opened, closed in (("[", "]"), ('{"a":', "}"), ('{"token":', "}")):
        done = Cleaner().file(opened * 300 + '"deep"' + closed * 300)
        assert done.count(opened[0]) == 101
        assert MASK in done
        assert "deep" not in done
    assert Cleaner().file("[" * 90 + '"deep"' + "]" * 90).count("deep") == 1


def test_values_are_found_in_files_of_credentials() -> None:
    registry = json.dumps({"auths": {"r.example": {"username": "u", "password": SECRET, "auth": "dTpw"}}})
    assert list(secret_values(registry)) == [SECRET, "dTpw"]
    assert list(secret_values(f"global:\n  smtp_auth_password: {SECRET}\n  other: x\n")) == [SECRET]


def test_json_stays_json() -> None:
    rows = [{"at": 1, "token": SECRET, "said": f"password={SECRET}"}, {"n": [f"Bearer {SECRET}"], "none": None}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = [json.loads(line) for line in Cleaner().file(lines).splitlines()]
    assert done == [{"at": 1, "token": MASK, "said": f"password={MASK}"}, {"n": [f"Bearer {MASK}"], "none": None}]
    assert json.loads(Cleaner().file(json.dumps(rows, indent=2))) == done
    assert Cleaner().file(f"{{not json\npassword={SECRET}\n") == f"{{not json\npassword={MASK}\n"


WORDS = st.text("abcXYZ019 :=\"'\\{}[],;&@/.~-_\n", max_size=40)
DATA: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(WORDS, some, max_size=3),
)


@given(WORDS, st.sampled_from(["password=", "token: ", "Authorization: Bearer ", "://u:", '"apiKey":"']), WORDS)
def test_nothing_around_a_known_secret_keeps_it(before: str, lead: str, after: str) -> None:
    assert SECRET not in Cleaner([SECRET]).text(f"{before} {lead}{SECRET} {after}")


@given(WORDS)
def test_what_was_cleaned_has_nothing_left_to_clean(text: str) -> None:
    once = Cleaner([SECRET]).text(f"token: {text}\npassword={SECRET}")
    assert SECRET not in once
    assert SECRET not in Cleaner([SECRET]).text(once)


@given(DATA)
def test_data_keeps_its_shape(data: Any) -> None:
    done = Cleaner().data(data)
    assert _shape(done) == _shape(data)


def _shape(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _shape(value) for key, value in data.items()}
    return [_shape(one) for one in data] if isinstance(data, list) else type(data)
