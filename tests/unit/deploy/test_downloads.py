"""How machines download images: mirrors, accounts at registries, proxies."""

from __future__ import annotations

import json
import string
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.deploy.apply import wish_of
from paictl.deploy.desired import MARK, OWNED, Desired
from paictl.deploy.downloads import (
    IMAGES,
    PROXY_UNITS,
    PROXY_VALUES,
    REGISTRIES,
    Proxies,
    RegistryAccount,
    account_tables,
    direct_hosts,
    hidden,
    proxy_files,
    secrets_of,
)
from paictl.deploy.inventory import Deployment
from paictl.errors import PaictlError
from tests.unit.deploy.test_desired import desired
from tests.unit.deploy.test_inventory import SETTINGS, made

CREDENTIALS = "  registry_credentials: {r.example:5000: {username: bo, password_file: token}}\n"


def files(deployment: Deployment) -> dict[str, dict[str, Any]]:
    return {one["path"]: one for one in desired(deployment).files(deployment.first)}


def filled(content: str, deployment: Deployment) -> str:
    """The file as Ansible writes it."""
    for name, value in deployment.hidden.items():
        content = content.replace(f"{{{{ {name} }}}}", value)
    return content


def with_token(folder: Path, word: str = "kelp-41", deploy: str = CREDENTIALS) -> Deployment:
    path = folder / "token"
    path.write_text(f"{word}\n")
    path.chmod(0o600)
    return made(folder, f"{SETTINGS}deploy:\n{deploy}")


def test_an_account_reaches_containerd_and_nothing_that_is_kept(tmp_path: Path) -> None:
    word = "a \"b' \\ {{ c }} %é"
    deployment = with_token(tmp_path, word)
    file = files(deployment)[REGISTRIES]
    assert file["mode"] == "0600"
    auth = tomllib.loads(filled(file["content"], deployment))["plugins"][IMAGES]["registry"]["configs"]
    assert auth == {"r.example:5000": {"auth": {"username": "bo", "password": word}}}
    made_of = desired(deployment)
    kept = json.dumps([wish_of(made_of), made_of.variables(deployment.first)], ensure_ascii=False)
    assert all(one not in kept for one in secrets_of(deployment.settings.accounts, None))
    assert word in deployment.secrets
    assert word not in repr(deployment)
    assert file["content"].startswith(MARK)
    assert {REGISTRIES, PROXY_VALUES, *PROXY_UNITS} <= set(OWNED)


@given(st.text(string.printable[:-5] + "é漢", min_size=1).filter(str.isprintable))
def test_any_password_is_itself_in_containerd_s_settings(password: str) -> None:
    accounts = {"a.example": RegistryAccount("bo", password), "b.example": RegistryAccount("al", "other")}
    values = hidden(accounts, None)
    tables = account_tables(accounts, "2.4.2", "")[IMAGES]["registry"]["configs"]
    for host, account in accounts.items():
        name = tables[host]["auth"]["password"].strip("{} ")
        assert tomllib.loads(f'x = "{values[name]}"') == {"x": account.password}


def test_docker_hub_has_its_account_where_it_answers() -> None:
    tables = account_tables({"docker.io": RegistryAccount("bo", "kelp")}, "2.4.2", "")
    assert list(tables[IMAGES]["registry"]["configs"]) == ["registry-1.docker.io"]


def test_a_containerd_that_takes_no_accounts_is_refused() -> None:
    accounts = {"r.example": RegistryAccount("bo", "kelp")}
    assert account_tables(accounts, "2.6.9", "")
    with pytest.raises(PaictlError, match=r"containerd 2\.7\.0 takes no registry_credentials") as refused:
        account_tables(accounts, "2.7.0", "/artifacts")
    assert refused.value.where == "/artifacts"
    assert "imagePullSecrets" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (None, 0, "cannot be read: No such file"),
        ("kelp\n", 0o640, "other users can read"),
        ("", 0o600, "on one line"),
        ("kelp\ntundra\n", 0o600, "on one line"),
        ("a\tb", 0o600, "on one line"),
        (b"\xff\xfe", 0o600, "is not text"),
    ],
)
def test_a_password_file_that_cannot_be_used(
    tmp_path: Path, content: str | bytes | None, mode: int, message: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
    with pytest.raises(PaictlError, match=message) as refused:
        made(tmp_path, f"{SETTINGS}deploy:\n{CREDENTIALS}")
    assert refused.value.where == str(path)
    assert "deploy.registry_credentials.r.example:5000.password_file" in str(refused.value)
    assert "kelp" not in str(refused.value)


def test_the_account_in_a_mirror_s_address_is_used_for_that_mirror(tmp_path: Path) -> None:
    """containerd ignores user and password in the address of a mirror."""
    mirrors = "  registry_mirrors: {docker.io: ['https://bo:kelp%2F41@m.example/hub', 'https://n.example']}\n"
    deployment = made(tmp_path, f"{SETTINGS}deploy:\n{mirrors}")
    assert deployment.settings.mirrors == {"docker.io": ("https://m.example/hub", "https://n.example")}
    assert deployment.settings.accounts == {"m.example": RegistryAccount("bo", "kelp/41")}
    assert "bo" not in files(deployment)["/etc/containerd/certs.d/docker.io/hosts.toml"]["content"]
    assert 'password = "{{' in files(deployment)[REGISTRIES]["content"].replace('"password"', "password")


def test_a_host_with_two_accounts_is_refused(tmp_path: Path) -> None:
    mirrors = "  registry_mirrors: {docker.io: ['https://bo:other@r.example:5000']}\n"
    with pytest.raises(PaictlError, match=r"r\.example:5000 has two accounts"):
        with_token(tmp_path, deploy=CREDENTIALS + mirrors)
    same = mirrors.replace("other", "kelp-41")
    assert len(with_token(tmp_path, deploy=CREDENTIALS + same).settings.accounts) == 1


PROXY = "  proxy: {http: 'http://bo:kelp%2041@p.example:3128', https: 'http://q.example:3128', no_proxy: [.corp]}\n"


def test_proxies_reach_both_units_and_their_password_only_root(tmp_path: Path) -> None:
    deployment = made(tmp_path, f"{SETTINGS}deploy:\n{PROXY}", workers="w1,10.78.1.9\nw2,10.77.0.40\n")
    found = files(deployment)
    assert found[PROXY_VALUES]["mode"] == "0600"
    assert "kelp" not in found[PROXY_VALUES]["content"]
    lines = filled(found[PROXY_VALUES]["content"], deployment).splitlines()
    values = dict(line.split("=", 1) for line in lines[1:])
    assert {name: values[name].strip('"') for name in values if "NO" not in name.upper()} == {
        "HTTP_PROXY": "http://bo:kelp%2041@p.example:3128",
        "http_proxy": "http://bo:kelp%2041@p.example:3128",
        "HTTPS_PROXY": "http://q.example:3128",
        "https_proxy": "http://q.example:3128",
    }
    assert values["NO_PROXY"] == values["no_proxy"]
    assert values["NO_PROXY"].strip('"').split(",") == [
        "localhost",
        "127.0.0.1",
        "::1",
        ".svc",
        ".cluster.local",
        "10.200.0.0/13",
        "10.192.0.0/13",
        "10.77.0.0/24",
        "10.78.1.0/24",
        "10.77.0.11",
        ".corp",
    ]
    for unit in PROXY_UNITS:
        assert found[unit]["content"] == f"{MARK}\n[Service]\nEnvironmentFile={PROXY_VALUES}\n"
        assert found[unit]["mode"] == "0600"  # as the benchmark wants the files of kubelet's unit (4.1.1)
    assert {"kelp%2041", "kelp 41"} <= deployment.secrets
    wish = json.dumps(wish_of(desired(deployment)))
    assert "http://bo@p.example:3128" in wish
    assert "kelp" not in wish
    assert "kelp" not in repr(deployment)
    assert not any("proxy" in path for path in files(made(tmp_path)))


def test_another_machine_of_the_same_network_changes_no_file_of_the_others(tmp_path: Path) -> None:
    both = [
        made(tmp_path, f"{SETTINGS}deploy:\n{PROXY}", workers=f"w1,10.77.0.12\n{more}")
        for more in ("", "w2,10.77.0.13\n")
    ]
    assert files(both[0])[PROXY_VALUES] == files(both[1])[PROXY_VALUES]


def test_the_network_around_a_machine_of_ipv6() -> None:
    assert direct_hosts("lab", (), ("fd00:1::5",), ())[-1] == "fd00:1::/64"


def test_one_proxy_alone_leaves_the_other_variable_out() -> None:
    content = proxy_files(Proxies(https="http://q.example:1"), ("localhost",), MARK)[PROXY_VALUES]
    assert "HTTP_PROXY" not in content
    assert 'HTTPS_PROXY="http://q.example:1"' in content


def test_exceptions_to_no_proxy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PaictlError, match="names no proxy") as refused:
        made(tmp_path, f"{SETTINGS}deploy:\n  proxy: {{no_proxy: [.corp]}}\n")
    assert refused.value.where == str(tmp_path / "config.yaml")


def test_no_machine_of_another_deployment_is_changed(tmp_path: Path) -> None:
    made_of: Desired = desired(made(tmp_path))
    assert REGISTRIES not in {one["path"] for one in made_of.files(made_of.deployment.first)}
