"""Signing in by an OpenID provider: in a browser, by a token, by a code on another device."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from paictl.cli.run import attempt
from paictl.cluster.accounts import Account
from paictl.cluster.embedded.sidefiles import EmbeddedUsers
from paictl.operate.users import devicecode
from paictl.operate.users.devicecode import sign_in
from paictl.remote.oidc.provider import Provider, ProviderError
from paictl.remote.oidc.tokens import TokenError
from paictl.server.app import ServerApp
from paictl.server.federation import Federation
from paictl.server.routing import Router
from paictl.server.serving import routes
from tests.unit.server.conftest import Reply, Server
from tests.unit.server.provider import EcKey, FakeProvider, RsaKey, providing

FILE = "services-configuration.yaml"


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with providing() as found:
        yield found


@pytest.fixture
def provider(running: FakeProvider) -> FakeProvider:
    """The one provider, as new."""
    fresh = FakeProvider(running.port)
    running.__dict__.update(fresh.__dict__)
    return running


@pytest.fixture
def federated(server: Server, provider: FakeProvider) -> Server:
    """The server, whose configuration names the provider."""
    section = {
        "issuer": provider.issuer,
        "client-id": "paictl",
        "name": "Lab",
        "groups": {"vision": ["vc1", "vc2"], "everybody": ["default"]},
        "admin-groups": ["gpu-admins"],
        "audiences": ["pai-api"],
    }
    files = dict(server.cluster.configuration().files)
    whole = yaml.safe_load(files[FILE]) | {"authentication": {"oidc": section}}
    server.cluster.push({**files, FILE: yaml.safe_dump(whole)}, "oidc")
    federation = Federation("", clock=lambda: 0.0)
    server.app = ServerApp(server.workers, Router(routes(federation=federation)), federation=federation)
    return server


def begun(server: Server, wanted: str = "/jobs") -> tuple[dict[str, str], str]:
    """What the browser is sent away with, and the cookie that it keeps."""
    reply = server.ask("GET", f"/sign-in/oidc?next={wanted}")
    assert reply.status == 303, reply.text
    query = {name: value[0] for name, value in parse_qs(urlsplit(reply.header("location")).query).items()}
    return query, "; ".join(f"{name}={value}" for name, value in reply.cookies.items())


def back(server: Server, provider: FakeProvider, name: str = "eve", **claims: Any) -> Reply:
    """Somebody signs in at the provider, and the browser comes back."""
    query, cookie = begun(server)
    provider.codes["code"] = provider.claims(name, nonce=query["nonce"], **claims)
    return server.ask("GET", f"/sign-in/oidc/callback?code=code&state={query['state']}", cookie=cookie)


def test_the_page_leads_to_the_provider_with_pkce(federated: Server, provider: FakeProvider) -> None:
    assert "Sign in with Lab" in federated.ask("GET", "/sign-in").text
    query, cookie = begun(federated)
    assert query["response_type"] == "code"
    assert query["redirect_uri"] == "http://pai.example/sign-in/oidc/callback"
    assert query["code_challenge_method"] == "S256"
    assert query["scope"].split()[0] == "openid"
    provider.codes["code"] = provider.claims("eve", nonce=query["nonce"], groups=["vision"])
    reply = federated.ask("GET", f"/sign-in/oidc/callback?code=code&state={query['state']}", cookie=cookie)
    assert (reply.status, reply.header("location")) == (303, "/jobs")
    fields = next(fields for path, fields in provider.asked if path == "/token")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(fields["code_verifier"].encode()).digest())
    assert challenge.decode().rstrip("=") == query["code_challenge"]
    session = f"paictl_session={reply.cookies['paictl_session']}"
    assert reply.cookies["paictl_begun"] == ""
    assert "eve" in federated.ask("GET", "/", cookie=session).text


def test_groups_are_tenants_and_those_of_today_count(federated: Server, provider: FakeProvider) -> None:
    assert back(federated, provider, groups=["vision", "unknown"]).status == 303
    users = federated.cluster.users
    account = users.account("eve")
    assert account is not None
    assert (account.vcs, account.admin, account.password) == (("vc1", "vc2"), False, "")
    assert back(federated, provider, groups=["everybody", "gpu-admins"]).status == 303
    account = users.account("eve")
    assert account is not None
    assert (account.vcs, account.admin) == (("default",), True)
    assert federated.form("/sign-in", {"user": "eve", "password": ""}).status == 400, "there is no password"


def test_a_name_opens_no_account_of_somebody_else(federated: Server, provider: FakeProvider) -> None:
    before = federated.cluster.users.account("root")
    reply = back(federated, provider, "root", groups=["vision"])
    assert reply.status == 400
    assert "user root exists here but does not belong to" in reply.text
    assert federated.cluster.users.account("root") == before
    assert back(federated, provider, "eve").status == 303
    assert back(federated, provider, "eve", sub="another").status == 400, "two people of one name"
    assert back(federated, provider, "a b").status == 400, "no name of a user"


def test_who_takes_another_name_at_the_provider_keeps_the_account(federated: Server, provider: FakeProvider) -> None:
    """With an account for each name, a person would have each user's limits and budgets anew."""
    users = federated.cluster.users
    assert back(federated, provider, "eve", groups=["vision"]).status == 303
    assert back(federated, provider, "adam", sub="id-eve", groups=["everybody"]).status == 303
    assert back(federated, provider, "root", sub="id-eve", groups=["everybody"]).status == 303
    assert [(account.name, account.vcs) for account in users.accounts() if account.subject] == [("eve", ("default",))]


def test_a_person_of_two_names_who_signs_in_twice_at_once_has_one_account(
    federated: Server, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paictl.operate.users import federated as module
    from paictl.operate.users.accounts import check_free

    names: list[str] = []

    def slow(jobs: Any, name: str) -> None:
        names.append(name)
        if name == "eve":
            assert back(federated, provider, "adam", sub="id-eve").status == 303
        check_free(jobs, name)

    monkeypatch.setattr(module, "check_free", slow)
    query, cookie = begun(federated)
    provider.codes["eves"] = provider.claims("eve", nonce=query["nonce"])
    address = f"/sign-in/oidc/callback?code=eves&state={query['state']}"
    settings, users = federated.app._federation.settings(federated.cluster), federated.cluster.users
    assert settings is not None
    account = module.account_for(users, federated.cluster, settings, provider.claims("eve"))
    assert account.name == "adam"
    assert federated.ask("GET", address, cookie=cookie).status == 303
    assert [account.name for account in users.accounts() if account.subject] == ["adam"]
    assert names == ["eve", "adam"]


def test_who_changes_the_account_all_the_time_does_not_keep_lost_rights(
    federated: Server, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert back(federated, provider, "eve", groups=["gpu-admins"]).status == 303
    put, others = EmbeddedUsers.put_account, iter(range(3))

    def late(users: EmbeddedUsers, account: Account) -> Account:
        if account.version and not account.admin and (number := next(others, None)) is not None:
            email = f"{number}@lab.example"
            put(users, replace(users.account("eve") or account, email=email))
        return put(users, account)

    monkeypatch.setattr(EmbeddedUsers, "put_account", late)
    assert federated.ask("GET", "/api/v2/users", token=provider.token("eve")).status == 403
    account = federated.cluster.users.account("eve")
    assert account is not None
    assert (account.admin, account.email) == (False, "2@lab.example")


@pytest.mark.parametrize("query", ["code=code&state=wrong", "code=code", "state=STATE", "code=other&state=STATE"])
def test_a_browser_that_comes_back_with_something_else_is_not_signed_in(
    query: str, federated: Server, provider: FakeProvider
) -> None:
    sent, cookie = begun(federated)
    provider.codes["code"] = provider.claims(nonce=sent["nonce"])
    address = f"/sign-in/oidc/callback?{query.replace('STATE', sent['state'])}"
    reply = federated.ask("GET", address, cookie=cookie)
    assert reply.status in (400, 403)
    assert "paictl_session" not in reply.cookies
    for other in ("", "paictl_begun=x", "paictl_begun=e30"):
        reply = federated.ask("GET", f"/sign-in/oidc/callback?code=code&state={sent['state']}", cookie=other)
        assert (reply.status, "paictl_session" in reply.cookies) == (400, False)
    assert federated.cluster.users.account("eve") is None


def test_a_token_of_another_sign_in_and_a_stranger_to_the_page_are_refused(
    federated: Server, provider: FakeProvider
) -> None:
    query, cookie = begun(federated, "//evil.example")
    provider.codes["code"] = provider.claims(nonce="of another")
    address = f"/sign-in/oidc/callback?code=code&state={query['state']}"
    assert "belongs to another sign-in" in federated.ask("GET", address, cookie=cookie).text
    provider.codes["code"] = provider.claims(nonce=query["nonce"])
    assert federated.ask("GET", address, cookie=cookie).header("location") == "/jobs", "no other site"


def test_a_program_shows_a_token_of_the_provider(federated: Server, provider: FakeProvider) -> None:
    word = provider.token(groups=["vision"], aud="pai-api")
    reply = federated.ask("GET", "/api/v2/users/eve", token=word)
    assert reply.status == 200, reply.text
    assert reply.data["grouplist"] == ["vc1", "vc2"]
    assert federated.ask("GET", "/api/v2/users", token=word).status == 403
    assert federated.ask("GET", "/", cookie=f"paictl_session={word}").status == 303, "not by a cookie"


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"aud": "grafana"}, "this token is for another audience (grafana), not for pai-api or paictl"),
        ({"exp": 1_000_000_000}, "this token expired at 2001-09-09T01:46:40Z: sign in again"),
        ({"iss": "https://other"}, "this token was issued by https://other, not by"),
        ({"preferred_username": "root"}, "user root exists here but does not belong to"),
    ],
)
def test_another_token_is_refused_with_the_reason(
    claims: dict[str, Any], said: str, federated: Server, provider: FakeProvider
) -> None:
    for reply in (
        federated.ask("GET", "/api/v2/jobs", token=provider.token(**claims)),
        federated.send("POST", "/api/v2/authn/oidc/login", {"id_token": provider.token(**claims)}),
    ):
        assert (reply.status, reply.data["code"]) == (401, "UnauthorizedUserError")
        assert said in reply.data["message"]
    assert federated.cluster.users.account("eve") is None


def test_keys_of_the_provider_may_change(federated: Server, provider: FakeProvider) -> None:
    assert federated.ask("GET", "/api/v2/jobs", token=provider.token()).status == 200
    provider.key = RsaKey("two")
    stranger = FakeProvider(provider.port, key=EcKey("two"))
    assert federated.ask("GET", "/api/v2/jobs", token=stranger.token()).status == 401
    federated.app._federation._provider.ticks = lambda: time.monotonic() + 31  # type: ignore[union-attr]
    assert federated.ask("GET", "/api/v2/jobs", token=provider.token()).status == 200


def test_a_token_of_a_withdrawn_key_ends_though_it_was_accepted_before(
    server: Server, federated: Server, provider: FakeProvider
) -> None:
    """Whoever has stolen a key signs tokens without end."""
    clock = [0.0]
    federation = Federation("", clock=lambda: clock[0])
    server.app = ServerApp(server.workers, Router(routes(federation=federation)), federation=federation)
    word = provider.token(exp=int(time.time()) + 10**9)
    assert federated.ask("GET", "/api/v2/jobs", token=word).status == 200
    provider.key = RsaKey("two")
    clock[0] = 601
    federation._provider.ticks = lambda: time.monotonic() + 601  # type: ignore[union-attr]
    assert federated.ask("GET", "/api/v2/jobs", token=word).status == 401


def test_what_the_token_leaves_out_is_asked_for(federated: Server, provider: FakeProvider) -> None:
    query, cookie = begun(federated)
    claims = provider.claims(nonce=query["nonce"])
    del claims["groups"]
    provider.codes["code"] = claims
    provider.user = {"sub": "id-eve", "groups": ["vision"]}
    address = f"/sign-in/oidc/callback?code=code&state={query['state']}"
    assert federated.ask("GET", address, cookie=cookie).status == 303
    account = federated.cluster.users.account("eve")
    assert account is not None
    assert account.vcs == ("vc1", "vc2")
    provider.codes["code"], provider.user = claims, {"sub": "somebody else", "groups": ["gpu-admins"]}
    assert "user differs from the token" in federated.ask("GET", address, cookie=cookie).text


def test_own_users_still_sign_in_while_the_provider_is_down(federated: Server, provider: FakeProvider) -> None:
    provider.down = True
    reply = federated.ask("GET", "/sign-in/oidc", headers={"accept": "text/html"})
    assert reply.status == 400
    assert "the provider refused" in reply.text
    assert federated.session("ann")


def test_strangers_cannot_make_the_server_wait_for_a_provider_that_is_down(
    federated: Server, provider: FakeProvider
) -> None:
    """Each thread that waits for it is missing to those who have a password."""
    forged = FakeProvider(provider.port)
    provider.down = True
    for number in range(5):
        forged.key.name = f"key{number}"
        assert federated.ask("GET", "/api/v2/jobs", token=forged.token()).status == 401
    assert len(provider.asked) == 1
    provider.down = False
    federated.app._federation._provider.ticks = lambda: time.monotonic() + 16  # type: ignore[union-attr]
    assert federated.ask("GET", "/api/v2/jobs", token=provider.token()).status == 200
    assert len(provider.asked) == 3


def test_a_clock_that_is_set_back_keeps_no_failure_and_no_old_keys(provider: FakeProvider) -> None:
    ticks, unix = [0.0], [time.time()]
    asked = Provider(provider.issuer, "paictl", clock=lambda: unix[0], ticks=lambda: ticks[0])
    provider.down = True
    with pytest.raises(ProviderError):
        asked.claims(provider.token())
    provider.down = False
    ticks[0], unix[0] = 16.0, unix[0] - 60
    word = provider.token()
    assert asked.claims(word)["sub"] == "id-eve", "the failure of before is over"
    provider.key = RsaKey("two")
    ticks[0] += 601
    with pytest.raises(TokenError):
        asked.claims(word)


def test_threads_do_not_stand_in_line_for_a_slow_provider(federated: Server, provider: FakeProvider) -> None:
    federated.ask("GET", "/api/v2/authn/oidc")
    asked = federated.app._federation._provider
    assert asked is not None
    with asked._lock:  # another thread waits for an answer
        assert federated.ask("GET", "/api/v2/jobs", token=provider.token()).status == 401
    assert federated.ask("GET", "/api/v2/jobs", token=provider.token()).status == 200


def test_sign_ins_that_wait_for_the_provider_take_no_turns_of_passwords(
    federated: Server, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    in_turn = federated.workers.in_turn

    async def noted(account: str, question: Any) -> Any:
        lines.append(account)
        return await in_turn(account, question)

    monkeypatch.setattr(federated.workers, "in_turn", noted)
    assert back(federated, provider, "eve").status == 303
    federated.send("POST", "/api/v2/authn/oidc/login", {"id_token": "no"})
    federated.session("ann")
    assert lines == ["OpenID provider"] * 2


def test_without_a_provider_there_is_nothing(server: Server) -> None:
    assert "Sign in with" not in server.ask("GET", "/sign-in").text
    for path in ("/sign-in/oidc", "/api/v2/authn/oidc"):
        assert server.ask("GET", path).status == 404
    assert server.ask("GET", "/api/v2/jobs", token=FakeProvider().token()).status == 401


def test_a_code_on_another_device_brings_a_token(
    federated: Server, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(_: str, path: str, body: dict[str, str] | None, __: object) -> Any:
        reply = federated.send("POST", path, body) if body else federated.get(path)
        assert reply.status == 200, reply.text
        return reply.data

    monkeypatch.setattr(devicecode, "_asked", asked)
    provider.pending = 2
    assert attempt(["user", "sign-in", "https://pai.example"])[0] == 0
    out, err = capsys.readouterr()
    assert f"open {provider.issuer}/device in a browser and type the code AB-CD" in err
    assert federated.ask("GET", "/api/v2/users/eve", token=out.strip()).data["grouplist"] == ["vc1", "vc2"]
    assert [path for path, _ in provider.asked].count("/token") == 3


def test_a_server_that_is_none_is_told_from_one(tmp_path: Path) -> None:
    from paictl.errors import PaictlError

    for address, said in (("pai.example", "not the address"), ("http://localhost:1", "does not answer")):
        with pytest.raises(PaictlError, match=said):
            sign_in(address, lambda _: None)
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(PaictlError, match="cannot be read"):
        sign_in("https://pai.example", lambda _: None, tmp_path / "ca.pem")
