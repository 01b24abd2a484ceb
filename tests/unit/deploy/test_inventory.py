from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paictl.config.making.generate import read_inputs
from paictl.deploy.inventory import Deployment, Role, deployment_of, hosts_of, named, route_api
from paictl.errors import PaictlError
from paictl.remote.inventory import Login

PASSWORD = "kelp $Tundra' 41"  # noqa: S105 - of no machine
SETTINGS = 'user: deploy\npassword: "kelp $Tundra\' 41"\ndocker_image_tag: v1.8.1\n'


ONE, OTHER = "m1,10.77.0.11\n", "w1,10.77.0.12\n"


def made(folder: Path, settings: str = SETTINGS, masters: str = ONE, workers: str = OTHER) -> Deployment:
    files = {"master.csv": masters, "worker.csv": workers, "config.yaml": settings}
    for name, text in files.items():
        (folder / name).write_text(text)
    inputs = read_inputs(*(str(folder / name) for name in files))
    assert inputs.usable, inputs.report.problems
    return deployment_of(inputs)


def test_machines_keep_the_order_of_their_lists_masters_first(tmp_path: Path) -> None:
    found = made(tmp_path, workers="w2,10.77.0.13\nw1,10.77.0.12\n")
    assert [(one.name, one.address, one.role) for one in found.machines] == [
        ("m1", "10.77.0.11", Role.MASTER),
        ("w2", "10.77.0.13", Role.WORKER),
        ("w1", "10.77.0.12", Role.WORKER),
    ]
    assert found.endpoint == "10.77.0.11:6443"
    assert found.login.user == "deploy"


def test_a_password_of_odd_characters_arrives_whole_and_is_not_shown(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert found.login.password == PASSWORD
    assert found.secrets == {PASSWORD}
    assert "Tundra" not in repr(found)


def test_openpai_s_keys_that_still_mean_something(tmp_path: Path) -> None:
    text = SETTINGS + (
        "openpai_kube_network_plugin: flannel\nkube_image_repo: mirror.example/k8s\n"
        "openpai_docker_registry_mirrors: [https://hub.example]\n"
        "openpai_docker_insecure_registries: ['10.0.0.5:5000']\n"
        "openpai_kubespray_extra_var:\n  kube_pods_subnet: 10.210.0.0/16\n"
        "  kube_version: v1.37.1\n  calico_mtu: '1400'\n"
        "docker_data_root: /mnt/docker\n"
    )
    settings = made(tmp_path, text).settings
    assert (settings.network, settings.repository, settings.version) == ("flannel", "mirror.example/k8s", "v1.37.1")
    assert settings.mirrors == {"docker.io": ("https://hub.example",)}
    assert settings.insecure == ("10.0.0.5:5000",)
    assert (settings.pods, settings.services) == ("10.210.0.0/16", "10.192.0.0/13")
    assert [note.split()[0] for note in settings.notes] == [
        "docker_data_root",
        "openpai_kubespray_extra_var.calico_mtu",
    ]


def test_the_section_deploy_says_the_rest(tmp_path: Path) -> None:
    text = SETTINGS + (
        "deploy:\n  cluster_name: lab\n  network: none\n  proxy_mode: iptables\n  swap: allowed\n"
        "  jobs_on_masters: true\n"
        "  kubelet: {failCgroupV1: false, cgroupDriver: cgroupfs}\n  etcd_arguments: {unsafe-no-fsync: 'true'}\n"
        "  ignore_preflight_errors: [SystemVerification]\n  containerd: {restrict_oom_score_adj: true}\n"
    )
    settings = made(tmp_path, text).settings
    assert (settings.cluster, settings.network, settings.proxy_mode) == ("lab", "none", "iptables")
    assert settings.swap_allowed
    assert settings.jobs_on_masters
    assert settings.kubelet == {"failCgroupV1": False, "cgroupDriver": "cgroupfs"}
    assert settings.etcd == {"unsafe-no-fsync": "true"}
    assert settings.ignored_checks == ("SystemVerification",)


THREE = "m1,10.77.0.11\nm2,10.77.0.12\nm3,10.77.0.13\n"


@pytest.mark.parametrize(
    ("settings", "masters", "workers", "message"),
    [
        (SETTINGS, THREE, "w1,10.77.0.14\n", "3 masters need one address for all"),
        (SETTINGS + "deploy: {api_address: 10.77.0.14}\n", THREE, "w1,10.77.0.14\n", "is a machine's address"),
        (SETTINGS + "openpai_kube_network_plugin: weave\n", ONE, OTHER, "weave is not supported"),
    ],
)
def test_what_cannot_become_a_cluster(tmp_path: Path, settings: str, masters: str, workers: str, message: str) -> None:
    with pytest.raises(PaictlError, match=message):
        made(tmp_path, settings, masters, workers)


@pytest.mark.parametrize(("prefix", "fits"), [(23, True), (24, False)])
def test_each_machine_needs_a_24_of_its_own(tmp_path: Path, prefix: int, fits: bool) -> None:
    """Two machines: a /23 is just enough."""
    settings = SETTINGS + f"openpai_kubespray_extra_var: {{kube_pods_subnet: 10.210.0.0/{prefix}}}\n"
    if fits:
        assert len(made(tmp_path, settings, ONE, OTHER).machines) == 2
        return
    with pytest.raises(PaictlError, match="has no /24 for each machine"):
        made(tmp_path, settings, ONE, OTHER)


def test_three_masters_with_an_address_that_moves(tmp_path: Path) -> None:
    found = made(tmp_path, SETTINGS + "deploy: {api_address: 10.77.0.100}\n", THREE, "w1,10.77.0.14\n")
    assert found.endpoint == "10.77.0.100:6443"
    assert [one.name for one in found.masters] == ["m1", "m2", "m3"]


def test_without_a_way_to_log_in(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    found = made(tmp_path, f"user: deploy\nssh_key_file_path: {key}\ndocker_image_tag: v1.8.1\n")
    assert found.login.key_file == str(key)
    assert found.secrets == frozenset()


def test_machines_by_name(tmp_path: Path) -> None:
    found = made(tmp_path, workers="w1,10.77.0.12\nw2,10.77.0.13\n")
    assert [one.name for one in named(found, ["w2", "m1"])] == ["m1", "w2"]
    with pytest.raises(PaictlError, match="no machine w9"):
        named(found, ["w9"])


KEYLESS = "user: deploy\ndocker_image_tag: v1.8.1\ndeploy:\n"


def keyed(folder: Path, deploy: str, **lists: str) -> Deployment:
    """A deployment that signs in with a key file."""
    (folder / "id").write_text("")
    head = f"user: deploy\nssh_key_file_path: {folder / 'id'}\ndocker_image_tag: v1.8.1\ndeploy:\n"
    return made(folder, head + deploy, **lists)


@pytest.mark.parametrize(
    ("written", "user", "address", "port"),
    [
        ("jump@gw.example:2222", "jump", "gw.example", 2222),
        ("gw.example", "deploy", "gw.example", 22),
        ("jump@[fd00::1]:23", "jump", "fd00::1", 23),
        ("10.0.0.1:24", "deploy", "10.0.0.1", 24),
    ],
)
def test_all_machines_are_reached_through_the_bastion(
    tmp_path: Path, written: str, user: str, address: str, port: int
) -> None:
    found = hosts_of(keyed(tmp_path, f"  bastion: '{written}'\n"))
    assert found.login.bastion is not None
    assert (found.login.bastion.user, found.login.bastion.address, found.login.bastion.port) == (user, address, port)
    assert [host.address for host in found] == ["10.77.0.11", "10.77.0.12"]


def test_a_bastion_takes_no_password_and_no_impossible_port(tmp_path: Path) -> None:
    with pytest.raises(PaictlError, match="no password is sent to a bastion"):
        made(tmp_path, SETTINGS + "deploy:\n  bastion: gw.example\n")
    with pytest.raises(PaictlError, match="at most 65535"):
        keyed(tmp_path, "  bastion: gw.example:99999\n")


def test_the_agent_s_keys_are_enough(tmp_path: Path) -> None:
    agent = hosts_of(made(tmp_path, KEYLESS + "  ssh_agent: true\n  bastion: gw.example\n")).login
    assert (agent.password, agent.key_file, agent.for_sudo) == (None, None, None)
    assert agent.bastion is not None
    with_sudo = hosts_of(made(tmp_path, SETTINGS + "deploy: {ssh_agent: true}\n")).login
    assert (with_sudo.password, with_sudo.for_sudo) == (None, PASSWORD)
    with pytest.raises(PaictlError, match="exclude each other"):
        keyed(tmp_path, "  ssh_agent: true\n")
    with pytest.raises(AssertionError):  # CFG303
        made(tmp_path, KEYLESS + "  ssh_agent: false\n")


def test_machines_with_another_user_or_port(tmp_path: Path) -> None:
    found = made(
        tmp_path, SETTINGS + "deploy:\n  ssh_port: 23\n  ssh_hosts: {w1: {user: ubuntu, port: 2222}, m1: {port: 24}}\n"
    )
    assert [(host.user, host.port) for host in hosts_of(found)] == [("deploy", 24), ("ubuntu", 2222)]
    with pytest.raises(PaictlError, match="no machine w3") as refused:
        made(tmp_path, SETTINGS + "deploy:\n  ssh_hosts: {w3: {port: 24}}\n")
    assert refused.value.where == str(tmp_path / "config.yaml")
    assert refused.value.hint


def test_the_api_is_reached_through_the_bastion_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes: dict[str, Callable[[], str]] = {}
    asked: list[tuple[str | None, str, int]] = []

    def forward(login: Login, address: str, port: int) -> int:
        asked.append((login.bastion.address if login.bastion else None, address, port))
        return 4711

    monkeypatch.setattr("paictl.remote.kube.client._ROUTES", routes)
    monkeypatch.setattr("paictl.remote.ssh.connection.forward_by_bastion", forward)
    route_api(made(tmp_path))
    assert routes == {}
    route_api(keyed(tmp_path, "  bastion: gw.example\n"))
    assert (list(routes), asked) == (["https://10.77.0.11:6443"], [])
    assert [routes["https://10.77.0.11:6443"]() for _ in range(2)] == ["127.0.0.1:4711"] * 2
    assert asked == [("gw.example", "10.77.0.11", 6443)]


@pytest.mark.parametrize(("mode", "used"), [("iptables", "iptables"), ("nftables", "nftables"), ("ipvs", "nftables")])
def test_kubesprays_proxy_mode_is_taken_over_where_kubernetes_still_has_it(
    tmp_path: Path, mode: str, used: str
) -> None:
    text = f"{SETTINGS}openpai_kubespray_extra_var:\n  kube_proxy_mode: {mode}\n"
    assert made(tmp_path, text).settings.proxy_mode == used
