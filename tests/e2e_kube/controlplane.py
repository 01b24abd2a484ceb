"""A Kubernetes control plane on loopback: real programs, free ports, an own folder; many may live side by side."""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT = "v1.37.1"
VERSION = os.environ.get("KUBE_VERSION", DEFAULT)
OF_THE_VERSION = ("kube-apiserver", "kube-scheduler")
"""What has to be of the version that is asked for; the rest may be what was built with the default one."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
HOST = "127.0.0.1"
_STARTS = 120.0
"""Seconds that a program may take to become ready; the machines are shared."""


def binaries() -> Path:
    """The folder that `make kube` fills."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("PAICTL_KUBE") or cache / "paictl" / "kube" / VERSION)


def binary(name: str) -> Path:
    """A file that `make kube` makes: of the version asked for, or what stands in for it."""
    own = binaries() / name
    beside = own.parent.parent / DEFAULT / name
    return beside if name not in OF_THE_VERSION and not own.is_file() and beside.is_file() else own


def missing() -> list[str]:
    """Programs that are not there."""
    return [name for name in PROGRAMS if not binary(name).is_file()]


_WORKERS, _PORTS = 4, 3000
"""Workers of a test run that start programs at the same time, and the ports of each."""
_given: set[int] = set()
"""Ports handed out in this process: a program may start long after it was given its port, or start again."""


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on, never handed out before and outside the range that the kernel gives away.

    Each worker of a parallel test run has a range of its own: another could take a port before its program listens.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < number:
            sock = stack.enter_context(socket.socket())
            port = 20000 + worker * _PORTS + int.from_bytes(os.urandom(2), "big") % _PORTS
            if port in _given:
                continue
            with contextlib.suppress(OSError):
                sock.bind((HOST, port))
                found.append(port)
                _given.add(port)
        return found


def _die_with_parent() -> None:
    """In the child: a test run that is killed leaves nothing behind (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass
class Program:
    """One program of ours: started, killed and started again with the same words."""

    name: str
    words: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.running:
            return
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                env={**os.environ, **self.environment},
            )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ask it to end; insist after ten seconds."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def freeze(self) -> None:
        """It gets no processor time: connections stay open and nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def memory(self) -> int:
        """Resident bytes."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def processor_seconds(self) -> float:
        """User and system time it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_until(self, ready: Callable[[], bool], seconds: float = _STARTS) -> None:
        """Wait until it answers; the end of its log if it ends or does not."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.running or time.monotonic() > end:
                raise AssertionError(f"{self.name} {'is not ready' if self.running else 'ended'}:\n{self.tail()}")
            time.sleep(0.05)


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether a GET gives 200."""
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=10) as reply:
            return int(reply.status) == 200
    except (OSError, http.client.HTTPException):  # the second: it ended in the middle of its answer
        return False


def anyone() -> ssl.SSLContext:
    """Trust whatever certificate a program made for itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager; kube-scheduler and kwok on request."""

    def __init__(self, folder: Path, features: Sequence[str] = ()) -> None:
        self.folder = folder
        self.features = features
        """Feature gates that are on for all programs of Kubernetes, with all API versions."""
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = dict(zip(("api", "etcd", "peer", "scheduler", "kcm", "kwok"), free_ports(6), strict=True))
        self.server = f"https://{HOST}:{self.ports['api']}"
        self.programs: dict[str, Program] = {}
        self.audit = folder / "audit.log"
        """Every request of service accounts in paictl-system."""
        _certificates(folder, self.server)
        (folder / "audit.yaml").write_text(_AUDIT)
        self.context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self.context.load_cert_chain(folder / "admin.crt", folder / "admin.key")

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator."""
        return self.folder / "admin.conf"

    def up(self, *, kwok: bool = True) -> None:
        """Start all but kube-scheduler."""
        self.start_etcd()
        self.start_apiserver()
        self.start_kcm()
        if kwok:
            self.start_kwok()

    def down(self) -> None:
        """End what was started, the users before what they use."""
        for program in reversed(list(self.programs.values())):
            program.kill() if program.name == "etcd" else program.stop()

    def start_etcd(self) -> None:
        client, peer = (f"http://{HOST}:{self.ports[name]}" for name in ("etcd", "peer"))
        program = self.program(
            "etcd",
            "--name=cp",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=cp={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        program.wait_until(lambda: answers(f"{client}/health"))

    def start_apiserver(self, *, wait: bool = True) -> None:
        at = self.folder
        program = self.program(
            "kube-apiserver",
            f"--etcd-servers=http://{HOST}:{self.ports['etcd']}",
            f"--bind-address={HOST}",
            f"--secure-port={self.ports['api']}",
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={at / 'apiserver.crt'}",
            f"--tls-private-key-file={at / 'apiserver.key'}",
            f"--client-ca-file={at / 'ca.crt'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--cert-dir={at / 'apiserver-certs'}",
            f"--service-account-signing-key-file={at / 'sa.key'}",
            f"--service-account-key-file={at / 'sa.pub'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--max-requests-inflight=800",
            "--delete-collection-workers=8",
            f"--audit-policy-file={at / 'audit.yaml'}",
            f"--audit-log-path={self.audit}",
            *self._gates,
            *(["--runtime-config=api/all=true"] if self.features else []),
        )
        if wait:
            program.wait_until(lambda: answers(f"{self.server}/readyz", self.context))
            program.wait_until(lambda: answers(f"{self.server}/api/v1/namespaces/default", self.context))

    def start_kcm(self) -> None:
        """A node that kwok forgets stays ready: it sometimes does where one of the same name went a moment before."""
        at, conf = self.folder, self.folder / "kcm.conf"
        program = self.program(
            "kube-controller-manager",
            f"--kubeconfig={conf}",
            f"--bind-address={HOST}",
            f"--secure-port={self.ports['kcm']}",
            f"--cert-dir={at / 'kcm-certs'}",
            f"--authentication-kubeconfig={conf}",
            f"--authorization-kubeconfig={conf}",
            f"--root-ca-file={at / 'ca.crt'}",
            f"--service-account-private-key-file={at / 'sa.key'}",
            f"--cluster-signing-cert-file={at / 'ca.crt'}",
            f"--cluster-signing-key-file={at / 'ca.key'}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--node-monitor-grace-period=1h",
            *self._gates,
        )
        program.wait_until(lambda: answers(f"https://{HOST}:{self.ports['kcm']}/healthz", anyone()))

    def start_kwok(self) -> None:
        """Fake nodes (label type=kwok) stay ready, and what is bound to them runs (`stages`)."""
        from tests.e2e_kube.stages import stages

        at = f"{HOST}:{self.ports['kwok']}"
        program = self.program(
            "kwok",
            f"--config={stages(self.folder)}",
            f"--kubeconfig={self.kubeconfig}",
            "--manage-nodes-with-label-selector=type=kwok",
            f"--node-ip={HOST}",
            f"--server-address={at}",
            f"--node-port={self.ports['kwok']}",
            f"--tls-cert-file={self.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.folder / 'apiserver.key'}",
            "--node-lease-duration-seconds=40",
        )
        program.wait_until(lambda: answers(f"http://{at}/healthz"))

    def start_scheduler(self, configuration: str, conf: Path | None = None) -> None:
        """Start kube-scheduler with a kubeconfig, its own by default, put in for ``@KUBECONFIG@``."""
        conf = conf or self.folder / "scheduler.conf"
        written = self.folder / "scheduler.yaml"
        written.write_text(configuration.replace("@KUBECONFIG@", str(conf)))
        if "kube-scheduler" in self.programs:
            self.programs["kube-scheduler"].stop()
        self.program(
            "kube-scheduler",
            f"--config={written}",
            f"--bind-address={HOST}",
            f"--secure-port={self.ports['scheduler']}",
            f"--cert-dir={self.folder / 'scheduler-certs'}",
            f"--authentication-kubeconfig={conf}",
            f"--authorization-kubeconfig={conf}",
            "-v=2",
            *self._gates,
        )
        self.await_scheduler()

    @property
    def _gates(self) -> list[str]:
        return [f"--feature-gates={','.join(f'{name}=true' for name in self.features)}"] if self.features else []

    def await_scheduler(self) -> None:
        """Wait until kube-scheduler is ready."""
        url = f"https://{HOST}:{self.ports['scheduler']}/readyz"
        self.programs["kube-scheduler"].wait_until(lambda: answers(url, anyone()))

    def program(self, name: str, *words: str) -> Program:
        """Start a program of Kubernetes, or start it again."""
        return self.run(name, [str(binary(name)), *words])

    def run(self, name: str, words: Sequence[str]) -> Program:
        """Start any program as part of this control plane, so that it ends with it."""
        known = self.programs.get(name)
        if known is None or list(known.words) != list(words):
            if known is not None:
                known.stop()
            known = self.programs[name] = Program(name, words, self.folder / f"{name}.log")
        known.start()
        return known


@contextlib.contextmanager
def control_plane(folder: Path, *, kwok: bool = True, features: Sequence[str] = ()) -> Iterator[ControlPlane]:
    """A control plane that is up inside the block."""
    plane = ControlPlane(folder, features)
    try:
        plane.up(kwok=kwok)
        yield plane
    finally:
        plane.down()


_AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, userGroups: ["system:serviceaccounts:paictl-system"]}
  - {level: None}
"""
_SUBJECTS = {
    "apiserver": "/CN=kube-apiserver",
    "admin": "/O=system:masters/CN=admin",
    "scheduler": "/CN=system:kube-scheduler",
    "kcm": "/CN=system:kube-controller-manager",
}


def _certificates(folder: Path, server: str) -> None:
    """An authority, the certificates of the parts, and their kubeconfig files."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "sa", *_SUBJECTS):
        openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", f"{name}.key")
    openssl(
        "req",
        "-x509",
        "-new",
        "-key",
        "ca.key",
        "-days",
        "3650",
        "-subj",
        "/CN=test-ca",
        "-out",
        "ca.crt",
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",  # Python 3.13 takes no authority without it
    )
    openssl("ec", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    names = "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
    identifiers = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"  # nor a certificate without these
    (folder / "names").write_text(f"{identifiers}subjectAltName={names}\n")
    for name, subject in _SUBJECTS.items():
        openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "3650",
            "-extfile",
            "names",
            "-out",
            f"{name}.crt",
        )
        kubeconfig(folder / f"{name}.conf", server, folder / "ca.crt", (folder / f"{name}.crt", folder / f"{name}.key"))


def kubeconfig(path: Path, server: str, authority: Path, user: tuple[Path, Path] | str) -> None:
    """Write a kubeconfig with one context named ``x``; `user` is a certificate and its key, or a token."""
    login = f"token: {user}" if isinstance(user, str) else f"client-certificate: {user[0]}, client-key: {user[1]}"
    path.write_text(
        "apiVersion: v1\nkind: Config\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority: {authority}}}}}]\n"
        f"users: [{{name: u, user: {{{login}}}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    path.chmod(0o600)
