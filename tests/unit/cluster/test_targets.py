"""Clusters by name: kept safely, chosen predictably, and never another one than was added."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cluster import registry
from paictl.cluster.interface import ClusterError, ConflictError
from paictl.cluster.registry import Pinned, read_registry
from paictl.cluster.targets import ClusterKind, chosen_name, find_target, open_target, pinned_now, targets
from paictl.errors import PaictlError

PROD = Pinned("prod", "/k/config", "admin@prod", "https://prod:6443", "sha256:1")
CA = "-----BEGIN CERTIFICATE-----\nMIIB{}\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("PAICTL_CLUSTER", "PAICTL_STATE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


# --- the registry


def test_names_are_kept_for_their_owner_alone_and_come_back() -> None:
    assert list(targets()) == ["local"]
    registry.add(PROD)
    registry.add(PROD)  # the same again is nobody's loss
    assert registry.registry_file().stat().st_mode & 0o777 == 0o600
    assert read_registry().clusters == {"prod": PROD}
    assert find_target("prod").kind is ClusterKind.KUBERNETES
    registry.use("prod")
    assert chosen_name() == "prod"
    registry.remove("prod")
    assert (chosen_name(), list(targets())) == ("local", ["local"])
    assert [path.name for path in registry.registry_file().parent.iterdir() if "paictl" in path.suffix] == []


def test_a_name_is_never_given_twice_by_mistake() -> None:
    registry.add(PROD)
    other = Pinned("prod", "/k/config", "x", "https://other:6443", "system")
    with pytest.raises(ConflictError, match="https://prod:6443"):
        registry.add(other)
    assert read_registry().clusters == {"prod": PROD}
    registry.add(other, force=True)
    assert read_registry().clusters == {"prod": other}
    for name in ("local", "Prod", "../prod", "", "a" * 64, "-x"):
        with pytest.raises(ClusterError):
            registry.add(Pinned(name, "f", "c", "s", "a"))


def test_many_who_add_at_once_lose_nothing() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: registry.add(Pinned(f"c{n}", "f", "c", "s", "a")), range(24)))
    assert len(read_registry().clusters) == 24


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schemaVersion": 1}', '{"schemaVersion": 9}', "\x00"])
def test_a_file_that_is_no_registry_is_told_with_its_place(text: str) -> None:
    registry.add(PROD)
    registry.registry_file().write_text(text)
    for ask in (chosen_name, lambda: registry.use("prod"), lambda: open_target("prod")):
        with pytest.raises(PaictlError) as caught:
            ask()
        assert caught.value.where == str(registry.registry_file())
    assert registry.registry_file().read_text() == text


# --- which one a command is about


@pytest.mark.parametrize(
    ("flag", "state_given", "variable", "folder", "used", "wanted"),
    [
        (None, False, None, None, None, "local"),
        (None, False, None, None, "prod", "prod"),
        (None, False, None, "/lab", "prod", "local"),
        (None, False, "test", None, "prod", "test"),
        (None, False, "local", "/lab", "prod", "local"),
        (None, True, "test", None, "prod", "local"),
        ("other", True, "test", "/lab", "prod", "other"),
        (None, False, "", None, "prod", "prod"),
    ],
)
def test_the_nearest_word_counts(
    monkeypatch: pytest.MonkeyPatch,
    flag: str | None,
    state_given: bool,
    variable: str | None,
    folder: str | None,
    used: str | None,
    wanted: str,
) -> None:
    registry.add(PROD)
    for name, value in (("PAICTL_CLUSTER", variable), ("PAICTL_STATE", folder)):
        if value is not None:
            monkeypatch.setenv(name, value)
    if used:
        registry.use(used)
    assert chosen_name(flag, state_given=state_given) == wanted


def test_a_lab_s_shell_and_a_named_cluster_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAICTL_STATE", "/lab")
    monkeypatch.setenv("PAICTL_CLUSTER", "prod")
    with pytest.raises(PaictlError, match="PAICTL_CLUSTER names prod"):
        chosen_name()


# --- kubeconfig files that change


def kubeconfig(path: Path, **changes: Any) -> Path:
    """A kubeconfig with contexts `a` (current) and `b`; changes by the keys of the first cluster, or `current`."""
    authority = path.parent / "ca.crt"
    if not authority.exists():
        authority.write_text(CA.format("AA"))
    cluster = {"server": "https://a:6443", "certificate-authority": str(authority)} | {
        key.replace("_", "-"): value for key, value in changes.items() if key != "current"
    }
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": changes.get("current", "a"),
        "clusters": [
            {"name": "a", "cluster": {key: value for key, value in cluster.items() if value is not None}},
            {"name": "b", "cluster": {"server": "https://b:6443"}},
        ],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("a", "b")],
    }
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return kubeconfig(tmp_path / "kubeconfig")


def added(config: Path) -> Pinned:
    pinned = pinned_now("prod", str(config), None)
    registry.add(pinned)
    return pinned


def test_a_name_stands_for_context_server_and_authority_and_holds_no_credentials(config: Path) -> None:
    pinned = added(config)
    assert (pinned.context, pinned.server, pinned.authority[:7]) == ("a", "https://a:6443", "sha256:")
    assert "t0ken" not in registry.registry_file().read_text()
    assert open_target("prod") is not None


def test_another_current_context_or_comment_redirects_nobody(config: Path) -> None:
    added(config)
    kubeconfig(config, current="b")
    config.write_text("# a comment\n" + config.read_text())
    (config.parent / "ca.crt").write_text("\n" + CA.format("AA") + "\n")
    cluster: Any = open_target("prod")
    assert cluster._client.server == "https://a:6443"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"server": "https://evil:6443"}, "its server was https://a:6443 and is https://evil:6443"),
        ({"server": "http://a:6443"}, "is http://a:6443"),
        ({"certificate_authority": None}, "those of this machine"),
        ({"certificate_authority": None, "insecure_skip_tls_verify": True}, "certificates are not checked"),
    ],
)
def test_a_context_that_leads_elsewhere_is_refused_with_what_changed(
    config: Path, changes: dict[str, Any], said: str
) -> None:
    added(config)
    kubeconfig(config, **changes)
    with pytest.raises(ClusterError, match="context a is no longer the cluster that was added as prod") as caught:
        open_target("prod")
    assert said in caught.value.message
    assert "nothing was sent" in str(caught.value.hint)
    assert "paictl cluster add prod --force" in str(caught.value.hint)


def test_another_authority_in_the_same_file_is_refused(config: Path) -> None:
    added(config)
    (config.parent / "ca.crt").write_text(CA.format("BB"))
    with pytest.raises(ClusterError, match="its certificate authority was sha256:"):
        open_target("prod")


def test_a_context_or_file_that_is_gone_is_told(config: Path) -> None:
    added(config)
    data = yaml.safe_load(config.read_text())
    data["contexts"] = data["contexts"][1:]
    data["current-context"] = "b"
    config.write_text(yaml.safe_dump(data))
    for _ in range(2):
        with pytest.raises(ClusterError, match="cluster prod cannot be reached as it was added"):
            open_target("prod")
        config.unlink(missing_ok=True)


def test_several_kubeconfigs_are_merged_and_none_is_written(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = kubeconfig(tmp_path / "other", server="https://other:6443")
    data = yaml.safe_load(other.read_text())
    data["contexts"] = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    data["clusters"] = [{"name": "c", "cluster": {"server": "https://c:6443"}}]
    other.write_text(yaml.safe_dump(data))
    before = config.read_bytes(), other.read_bytes()
    monkeypatch.setenv("KUBECONFIG", f"{config}{os.pathsep}{other}")
    pinned = pinned_now("both", None, "c")
    registry.add(pinned)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "elsewhere"))  # the name stands for the files of then
    cluster: Any = open_target("both")
    assert (cluster._client.server, cluster._client.context) == ("https://c:6443", "c")
    assert (config.read_bytes(), other.read_bytes()) == before


def test_the_registry_is_data_for_others(config: Path) -> None:
    added(config)
    data = json.loads(registry.registry_file().read_text())
    assert data["schemaVersion"] == 1
    assert data["clusters"]["prod"]["context"] == "a"
