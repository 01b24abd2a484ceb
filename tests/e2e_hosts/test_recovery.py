"""A cluster that was away: restored to an older backup, clocks that jump, certificates that have all ended."""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from tests.e2e_hosts.site import Site, site_of
from tests.e2e_hosts.test_node_dns import start
from tests.e2e_hosts.test_reconfigure import apply, changed, kubectl, plan
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1", reason="takes ten minutes: PAICTL_E2E_ALL=1 make e2e-hosts"
)
AWAY = datetime.timedelta(days=400)
"""How long it was away. All hosts have one clock, so the certificates are made older instead of the clock later."""
OF_KUBELETS = ("client", "server")


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and a worker that reach no registry, with a pod."""
    lab.up(2)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], [2])
    made = replace(bare, deploy={**bare.deploy, "offline": True}).write()
    assert apply(made).returncode == 0
    start(made, "before")
    return made


def aged(pem: bytes, authority: Path) -> bytes:
    """The same certificate as it would be after `AWAY`, signed by the same authority; what follows it is kept."""
    own = re.search(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n", pem, re.DOTALL)
    assert own is not None
    old = x509.load_pem_x509_certificate(own.group())
    by = x509.load_pem_x509_certificate(authority.with_suffix(".crt").read_bytes())
    key = load_pem_private_key(authority.with_suffix(".key").read_bytes(), None)
    made = x509.CertificateBuilder(
        issuer_name=by.subject,
        subject_name=old.subject,
        public_key=old.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=old.not_valid_before_utc - AWAY,
        not_valid_after=old.not_valid_after_utc - AWAY,
    )
    for extension in old.extensions:
        made = made.add_extension(extension.value, extension.critical)
    return pem.replace(own.group(), made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))  # type: ignore[arg-type]


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file in place: links to it, its owner and its mode stay."""
    path.write_bytes(change(path.read_bytes()))


def in_kubeconfig(authority: Path) -> Callable[[bytes], bytes]:
    """`aged` for the certificates in a kubeconfig."""

    def change(text: bytes) -> bytes:
        encoded = re.compile(rb"(client-certificate-data: )(\S+)")
        return encoded.sub(lambda m: m[1] + base64.b64encode(aged(base64.b64decode(m[2]), authority)), text)

    return change


def switch_off_for_a_year(site: Site, *, heals: bool) -> None:
    """Let all certificates age by `AWAY`, and switch the machines off and on; `heals`: masters renew by themselves."""
    first = site.lab.machine(1)
    pki = first.root / "etc/kubernetes/pki"
    first.execute(["systemctl", "enable" if heals else "disable", "paictl-certificates"])
    for machine in site.lab.machines():
        machine.kill()
    for path in [*pki.glob("*.crt"), *pki.glob("etcd/*.crt")]:
        authority = (
            pki / "etcd/ca" if path.parent.name == "etcd" or path.name.startswith("apiserver-etcd") else pki / "ca"
        )
        authority = pki / "front-proxy-ca" if path.name == "front-proxy-client.crt" else authority
        if not path.name.endswith("ca.crt"):
            rewrite(path, lambda pem, by=authority: aged(pem, by))  # type: ignore[misc]
    own = site.folder / "home/.kube/config"
    for path in [*(first.root / "etc/kubernetes").glob("*.conf"), own]:
        rewrite(path, in_kubeconfig(pki / "ca"))
    for machine in site.lab.machines():
        for kind in OF_KUBELETS:
            link = machine.folder / f"disk/kubelet/pki/kubelet-{kind}-current.pem"
            rewrite(link.parent / link.readlink().name, lambda pem: aged(pem, pki / "ca"))
    for machine in site.lab.machines():
        site.lab.start(machine.number)


def runs_again(site: Site) -> None:
    """All that `verify` looks at is well, and a pod starts on the worker."""
    well = lambda: site.paictl("deploy", "verify", *site.files).returncode == 0  # noqa: E731
    wait_until(well, "all that deploy verify tries is well", seconds=600, pause=1)
    for machine in site.lab.machines():
        assert not (machine.root / "etc/kubernetes/bootstrap-kubelet.conf").exists()
    phase = ("get", "pod", "before", "-o", "jsonpath={.status.phase}")
    wait_until(lambda: kubectl(site, *phase) == "Running", "the pod of before runs", seconds=400)


def test_the_plan_after_a_restore_lists_what_the_backup_lacks(site: Site) -> None:
    """The first master had noted as applied what is not in etcd any more."""
    made = site.paictl("deploy", "backup", *site.files, str(site.folder))
    assert made.returncode == 0, made.stderr
    after = changed(site, node_dns=True, pod_security={"research": "baseline"})
    try:
        assert apply(after).returncode == 0
        assert plan(after) == []
        done = site.paictl("deploy", "restore", made.stdout.strip(), "--cluster-id", "pai", *site.files, seconds=1500)
        assert done.returncode == 0, done.stdout + done.stderr
        planned = {(one["phase"], one["host"]): one["what"] for one in plan(after)}
        assert ("node-dns", "h1") in planned
        assert any(line.startswith("pod_security: ") for line in planned["settings", "h1"])
        assert apply(after).returncode == 0
        assert plan(after) == []
        assert "node-dns" in kubectl(site, "-n", "kube-system", "get", "daemonset", "-o", "name")
        level = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}"
        assert kubectl(site, "get", "namespace", "research", "-o", level) == "baseline"
    finally:
        site.write()
    assert apply(site).returncode == 0


@pytest.mark.parametrize(("seconds", "said"), [(7200, "s ahead"), (-7200, "s behind")])
def test_a_clock_that_jumps_is_named_and_pods_keep_running(site: Site, seconds: int, said: str) -> None:
    """Programs of sessions see the jump, paictl's among them; kubelet and containers have this machine's clock."""
    count = ("get", "pod", "before", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}")
    before, worker = kubectl(site, *count), site.lab.machine(2)
    worker.clock(seconds)
    try:
        done = site.paictl("deploy", "verify", "-o", "json", *site.files)
        clocks = {one["node"]: one for one in json.loads(done.stdout)["findings"] if one["check"] == "clock"}
        assert (done.returncode, clocks["h1"]["verdict"], clocks["h2"]["verdict"]) == (1, "ok", "failed")
        assert said in clocks["h2"]["message"]
        refused = site.paictl("deploy", "apply", "--yes", "--kubernetes-only", *site.files)
        assert refused.returncode == 1
        assert "h2: clock: " in refused.stderr
    finally:
        worker.clock(0)
    assert kubectl(site, *count) == before
    assert "nothing changed" in apply(site).stdout


@pytest.fixture
def stopped(site: Site) -> Iterator[None]:
    """What renews by itself is off until the end of a test."""
    yield
    site.lab.machine(1).execute(["systemctl", "enable", "--now", "paictl-certificates"])


def test_what_has_ended_is_named_and_renewed_by_one_command(site: Site, stopped: None) -> None:
    del stopped
    switch_off_for_a_year(site, heals=False)
    for verb in ("verify", "plan", "apply"):
        done = site.paictl("deploy", verb, *(["--yes"] if verb == "apply" else []), *site.files)
        said = " ".join(done.stderr.split())
        assert (done.returncode, "Traceback" in said) == (1, False), said
        assert "certificates have expired on h1: " in said, said
        assert "; h2: kubelet" in said, said
        assert "paictl deploy certs renew" in said, said
    status = site.paictl("deploy", "certs", "status", "-o", "json", *site.files)
    ended = {(one["host"], one["name"]) for one in json.loads(status.stdout)["items"] if one["days"] < 0}
    assert {("h1", "apiserver"), ("h1", "admin.conf"), ("h1", "kubelet"), ("h2", "kubelet")} <= ended
    renewed = site.paictl("deploy", "certs", "renew", "--yes", *site.files)
    assert renewed.returncode == 0, renewed.stderr
    site.lab.machine(1).execute(["systemctl", "start", "paictl-certificates"])  # signs what kubelets serve with
    # The kubeconfig of the administrator has ended, too, and nobody but `apply` writes it.
    refused = site.paictl("deploy", "verify", *site.files)
    assert "paictl deploy apply" in refused.stderr
    assert apply(site).returncode == 0
    runs_again(site)
    assert plan(site) == []


def test_masters_come_back_by_themselves(site: Site) -> None:
    switch_off_for_a_year(site, heals=True)
    answers = ["sh", "-c", "KUBECONFIG=/etc/kubernetes/admin.conf kubectl get --raw /readyz"]
    wait_until(
        lambda: site.lab.machine(1).execute(answers, check=False).stdout == "ok", "the API", seconds=600, pause=1
    )
    done = site.paictl("deploy", "plan", *site.files)
    assert "certificates have expired on h2: kubelet-client-current.pem" in " ".join(done.stderr.split())
    assert site.paictl("deploy", "certs", "renew", "--yes", *site.files).returncode == 0
    assert apply(site).returncode == 0
    runs_again(site)
