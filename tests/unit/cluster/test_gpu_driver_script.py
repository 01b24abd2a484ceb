"""What a pod of gpu-driver decides and does on its machine: its script, run by sh on trees in place of machines."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from paictl.deploy.downloads import PROXY_VALUES, Proxies, hidden, proxy_files
from tests.unit.cluster.catalogue import TEMPLATES

SCRIPT = TEMPLATES / "gpu-driver" / "_gpu-driver.sh"
WANTED, OLD = "580.126.20", "570.195.03"
KERNEL = "6.8.0-86-generic"
PROGRAMS = {"nvidia-driver": 0, "sleep": 0, "mount": 0, "umount": 0, "nvidia-smi": 0}
"""What the script may call and must not find here, and how it ends."""


class Machine:
    """A machine with a GPU and no driver, which runs Ubuntu 24.04; programs note that they were called."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.programs = folder / "programs"
        self.calls = folder / "calls"
        self.system = "ubuntu24.04"
        self.programs.mkdir(parents=True)
        for name, code in PROGRAMS.items():
            self.program(name, f'echo "{name} $*" >> {self.calls}\nexit {code}')
        self.program("uname", f"echo {KERNEL}")
        for name in ("dev", "paictl-state", "run/nvidia", "sys/module", f"host/lib/modules/{KERNEL}"):
            (self.root / name).mkdir(parents=True)
        self.write("host/os-release", 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\n')
        self.write("proc/mounts", "")
        self.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de")
        self.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200")

    def program(self, name: str, lines: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)

    def write(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def load(self, version: str, *, held: int = 0, uvm: int = 0) -> None:
        """Load a driver; `held` and `uvm` are the uses of its modules beside those by each other."""
        self.write("sys/module/nvidia/version", version + "\n")
        self.write("sys/module/nvidia/refcnt", f"{held + 2}\n")
        self.write("sys/module/nvidia_modeset/refcnt", "0\n")
        self.write("sys/module/nvidia_uvm/refcnt", f"{uvm}\n")

    def ours(self, *versions: str) -> None:
        """Versions that this service has installed since the machine started."""
        self.write("run/nvidia/paictl-gpu-driver", "".join(f"{one}\n" for one in versions))

    def installed(self) -> list[str]:
        """What the script has noted of that."""
        path = self.root / "run/nvidia/paictl-gpu-driver"
        return path.read_text().splitlines() if path.exists() else []

    def sh(self, mode: str) -> int:
        env = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "ROOT": str(self.root),
            "WANTED": WANTED,
            "SYSTEM": self.system,
        }
        return subprocess.run(["sh", str(SCRIPT), mode], env=env, capture_output=True, check=False).returncode

    def said(self) -> str:
        """What is in the pod's state."""
        return (self.root / "dev/termination-log").read_text()

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def printing(machine: Machine, *names: str) -> None:
    """NVIDIA's script says what some variables are."""
    machine.program("nvidia-driver", "\n".join(f'printf "%s\\n" "{name}=${name}" >> {machine.calls}' for name in names))


def test_the_driver_is_fetched_through_the_proxy_of_the_machine(machine: Machine) -> None:
    proxies = Proxies("http://proxy.example:3128", "http://u:a$HOME'%40!@proxy.example:3128", ("mirror.example",))
    written = proxy_files(proxies, ["localhost", ".cluster.local"], "# by paictl")[PROXY_VALUES]
    for name, word in hidden({}, proxies).items():  # as Ansible fills them in
        written = written.replace(f"{{{{ {name} }}}}", word)
    machine.write(f"proc/1/root{PROXY_VALUES}", written + 'PATH="/nowhere"\nNO_GPU=1\n')
    printing(machine, "http_proxy", "HTTPS_PROXY", "https_proxy", "no_proxy", "NO_GPU")
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert machine.called()[1:] == [
        "http_proxy=http://proxy.example:3128",
        *(f"{name}=http://u:a$HOME'%40!@proxy.example:3128" for name in ("HTTPS_PROXY", "https_proxy")),
        "no_proxy=localhost,.cluster.local,mirror.example",
        "NO_GPU=",
    ]


def test_without_a_proxy_on_the_machine_none_is_used(machine: Machine) -> None:
    printing(machine, "http_proxy", "HTTPS_PROXY")
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert machine.called()[1:] == ["http_proxy=", "HTTPS_PROXY="]


def test_rhel_lends_its_subscription_to_the_container_of_the_driver(machine: Machine) -> None:
    machine.system = "rhel9.6"
    machine.write("host/os-release", 'ID="rhel"\nVERSION_ID="9.6"\n')
    assert machine.sh("look") == 0
    assert machine.sh("run") == 1
    assert machine.said().startswith("this machine has no RHEL subscription")
    assert machine.called() == []
    for name in ("pki/entitlement/1.pem", "rhsm/rhsm.conf", "yum.repos.d/redhat.repo"):
        machine.write(f"proc/1/root/etc/{name}", name)
    for _ in range(2):  # the container may start again
        assert machine.sh("run") == 0
        secrets = machine.root / "run/secrets"
        found = [
            (secrets / name).read_text() for name in ("etc-pki-entitlement/1.pem", "rhsm/rhsm.conf", "redhat.repo")
        ]
        assert found == ["pki/entitlement/1.pem", "rhsm/rhsm.conf", "yum.repos.d/redhat.repo"]
    assert machine.called()[-1] == "nvidia-driver init"


def test_a_machine_without_a_driver_gets_one(machine: Machine) -> None:
    assert machine.sh("look") == 0
    assert machine.said() == f"install {WANTED}"
    assert machine.called() == []
    assert not list((machine.root / "run/nvidia").iterdir()), "the init container writes nothing to the machine"
    assert machine.sh("run") == 0
    firmware = machine.root / "run/nvidia/driver/lib/firmware"
    assert machine.called() == [f"mount --bind {firmware} {machine.root}/lib/firmware", "nvidia-driver init"]
    assert firmware.is_dir()
    assert (machine.root / "lib/firmware").is_dir(), "images need not have it"
    machine.load(WANTED)
    assert machine.sh("ready") == 0
    assert machine.sh("look") == 0
    assert machine.said() == f"keep {WANTED}", "it is known again"


def test_a_driver_of_the_machine_is_left_alone(machine: Machine) -> None:
    machine.load(OLD)
    assert machine.sh("look") == 0
    assert machine.said() == f"host {OLD}"
    assert machine.sh("run") == 0
    assert machine.called() == ["sleep infinity"]
    assert (machine.root / "run/nvidia/driver").readlink() == Path("/"), "where others look for the driver"
    assert not (machine.root / "run/nvidia/paictl-gpu-driver").exists()
    assert machine.sh("ready") == 0


def test_a_driver_that_another_container_has_installed_stays_where_it_is(machine: Machine) -> None:
    machine.load(WANTED)
    machine.write("run/nvidia/driver/usr/bin/nvidia-smi", "theirs")
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert machine.said() == f"host {WANTED}"
    assert (machine.root / "run/nvidia/driver/usr/bin/nvidia-smi").read_text() == "theirs"


def test_a_link_to_a_driver_that_is_gone_gives_way(machine: Machine) -> None:
    (machine.root / "run/nvidia/driver").symlink_to("/")
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert not (machine.root / "run/nvidia/driver").is_symlink()


@pytest.mark.parametrize(
    ("loaded", "ours", "held", "uvm"),
    list(itertools.product((OLD, WANTED), ((), (OLD,), (WANTED,), (OLD, WANTED)), (0, 3), (0, 1))),
)
def test_nothing_is_exchanged_that_is_in_use_or_not_ours(
    machine: Machine, loaded: str, ours: tuple[str, ...], held: int, uvm: int
) -> None:
    machine.load(loaded, held=held, uvm=uvm)
    if ours:
        machine.ours(*ours)
    code = machine.sh("look")
    if loaded not in ours:
        assert (code, machine.said()) == (0, f"host {loaded}")
    elif loaded == WANTED:
        assert (code, machine.said()) == (0, f"keep {WANTED}")
    elif held or uvm:
        assert code == 1
        assert machine.said().startswith(f"driver {OLD} is in use and stays: drain this machine and reboot it")
    else:
        assert (code, machine.said()) == (0, f"replace {OLD} {WANTED}")
    machine.sh("run")
    exchanged = "nvidia-driver init" in machine.called()
    assert exchanged == (loaded in ours and (loaded == WANTED or not (held or uvm)))
    assert (machine.called()[:1] == ["nvidia-driver init"]) == (exchanged and bool(held or uvm)), "mounts stay in use"


def test_the_files_of_an_old_container_go_before_the_new_ones_come(machine: Machine) -> None:
    machine.load(OLD)
    machine.ours(OLD)
    driver = machine.root / "run/nvidia/driver"
    machine.write("proc/mounts", f"overlay {driver} overlay rw 0 0\n")
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert machine.called()[0] == f"umount -l -R {driver}"
    assert machine.installed() == [OLD], "the new one is not there yet"
    machine.load(WANTED)
    assert (machine.sh("ready"), machine.sh("ready")) == (0, 0)
    assert machine.installed() == [OLD, WANTED], "each once"


@pytest.mark.parametrize("loaded", [OLD, WANTED])
def test_what_the_machine_loads_after_a_failed_installation_is_its_own(machine: Machine, loaded: str) -> None:
    machine.program("nvidia-driver", f'echo "nvidia-driver $*" >> {machine.calls}\nexit 1')
    assert (machine.sh("look"), machine.sh("run")) == (0, 1)
    assert machine.sh("ready") != 0
    assert machine.installed() == []
    machine.calls.unlink()
    machine.write(f"host/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst", "")
    machine.load(loaded)
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert machine.said() == f"host {loaded}"
    assert machine.called() == ["sleep infinity"]
    assert (machine.root / "run/nvidia/driver").readlink() == Path("/"), "no folder of the failed run is in the way"


@pytest.mark.parametrize("loaded", [OLD, WANTED])
def test_a_driver_on_the_disk_is_the_machine_s_own_whatever_was_installed_before(machine: Machine, loaded: str) -> None:
    machine.ours(OLD, WANTED)
    machine.write(f"host/lib/modules/{KERNEL}/kernel/drivers/video/nvidia.ko.xz", "")
    machine.load(loaded)
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert machine.said() == f"host {loaded}"
    assert machine.called() == ["sleep infinity"]


def test_folders_of_a_driver_that_is_mounted_stay(machine: Machine) -> None:
    firmware = machine.root / "run/nvidia/driver/lib/firmware"
    firmware.mkdir(parents=True)
    machine.write("proc/mounts", f"overlay {machine.root}/run/nvidia/driver overlay rw 0 0\n")
    machine.load(OLD)
    assert (machine.sh("look"), machine.sh("run")) == (0, 0)
    assert firmware.is_dir()


def test_another_driver_than_the_wanted_one_is_not_remembered(machine: Machine) -> None:
    assert machine.sh("look") == 0
    machine.load(OLD)  # by the machine, while this one was being compiled
    machine.sh("ready")
    assert machine.installed() == []


REFUSALS = {
    "no GPU": ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086", "this machine has no NVIDIA GPU"),
    "only its sound": ("sys/bus/pci/devices/0000:01:00.0/class", "0x040300", "this machine has no NVIDIA GPU"),
    "nouveau": ("sys/module/nouveau/refcnt", "1", "nouveau holds the GPUs"),
    "driver on disk": (f"host/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst", "", "a driver of its own that is not"),
    "of Debian": (f"host/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko", "", "a driver of its own that is not"),
    "another system": ("host/os-release", "ID=debian\nVERSION_ID=12\n", "this machine runs debian12, this driver is"),
    "no version": ("host/os-release", "ID=debian\n", "this machine runs debian, this driver is for ubuntu24.04"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_stands_in_the_way_is_said_and_nothing_is_done(machine: Machine, case: str) -> None:
    name, content, message = REFUSALS[case]
    machine.write(name, content)
    for mode in ("look", "run"):
        assert machine.sh(mode) == 1
        assert message in machine.said()
    assert machine.called() == []


def test_a_driver_for_another_kernel_is_none(machine: Machine) -> None:
    machine.write("host/lib/modules/5.15.0-1-generic/updates/nvidia.ko", "")
    assert machine.sh("look") == 0
    assert machine.said() == f"install {WANTED}"


def test_a_container_that_starts_again_does_not_do_what_was_decided_before(machine: Machine) -> None:
    assert machine.sh("look") == 0
    machine.load(OLD)  # by somebody else
    assert machine.sh("run") == 1
    assert machine.said() == (
        f"the driver of this machine has changed (install {WANTED}, now host {OLD}): delete this pod"
    )
    assert machine.called() == []


def test_it_is_ready_when_the_driver_answers(machine: Machine) -> None:
    assert machine.sh("look") == 0
    assert machine.sh("ready") != 0, "nothing is loaded"
    machine.load(WANTED)
    assert machine.sh("ready") == 0
    machine.program("nvidia-smi", "exit 9")
    assert machine.sh("ready") != 0
    assert machine.sh("other") == 1
