#!/usr/bin/python
# Part of paictl. Looks and changes nothing.
"""What a host is, and in what it differs from what it shall be."""

import glob
import os
import platform

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import (
    BEGUN,
    DONE,
    active_swap,
    differing_files,
    images,
    installed,
    is_installed,
    missing_images,
    missing_modules,
    read,
    run,
    swap_lines,
    wrong_sysctls,
)

DOCUMENTATION = r"""
module: paictl_facts
short_description: What a host is, and in what it differs from what it shall be
description: [Looks and changes nothing.]
options:
  programs: {description: Programs with the SHA-256 of their artifacts., type: list, elements: dict, default: []}
  files: {description: Files with content and mode., type: list, elements: dict, default: []}
  images: {description: Archives of images., type: list, elements: dict, default: []}
  modules: {description: Kernel modules., type: list, elements: str, default: []}
  sysctls: {description: Kernel settings., type: dict, default: {}}
  swap_allowed: {description: Whether swap may be on., type: bool, default: false}
  node: {description: The name of the node., type: str, required: true}
author: [paictl]
"""
EXAMPLES = r"""
- name: Look
  paictl_facts:
    node: "{{ inventory_hostname }}"
"""
RETURN = r"""
facts:
  description: What was found.
  returned: always
  type: dict
"""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def operating_system():
    """ID, VERSION_ID and ID_LIKE of /etc/os-release."""
    rows = [line.partition("=") for line in read("/etc/os-release").splitlines()]
    found = {name: value.strip().strip('"') for name, _, value in rows}
    return {"id": found.get("ID", ""), "version": found.get("VERSION_ID", ""), "like": found.get("ID_LIKE", "")}


def memory():
    """Bytes of memory."""
    line = next((one for one in read("/proc/meminfo").splitlines() if one.startswith("MemTotal:")), "MemTotal: 0")
    return int(line.split()[1]) * 1024


def free(path):
    """Bytes free below a folder, or below the nearest one above that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def gpus():
    """PCI addresses of NVIDIA's GPUs."""
    return [
        os.path.basename(device)
        for device in sorted(glob.glob("/sys/bus/pci/devices/*"))
        if read(device + "/vendor").strip() == "0x10de" and read(device + "/class").startswith("0x03")
    ]


def units(names):
    """State of units, in the order of their names."""
    _, out, _ = run(["systemctl", "is-active", *names])
    return {name: state for name, state in zip(names, out.split())}  # noqa: B905, C416


def differences(wanted):
    """What is not as it shall be, by kind."""
    known = installed()
    return {
        "programs": [one["name"] for one in wanted["programs"] if not is_installed(one, known)],
        "files": [one["path"] for one in differing_files(wanted["files"])],
        "images": [one["archive"] for one in missing_images(wanted["images"], images())],
        "modules": missing_modules(wanted["modules"]),
        "sysctls": sorted(wrong_sysctls(wanted["sysctls"])),
        "swap": [] if wanted["swap_allowed"] else active_swap() + swap_lines(read("/etc/fstab")),
    }


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "programs": {"type": "list", "elements": "dict", "default": []},
            "files": {"type": "list", "elements": "dict", "default": []},
            "images": {"type": "list", "elements": "dict", "default": []},
            "modules": {"type": "list", "elements": "str", "default": []},
            "sysctls": {"type": "dict", "default": {}},
            "swap_allowed": {"type": "bool", "default": False},
            "node": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    facts = {
        "os": operating_system(),
        "arch": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "kernel": platform.release(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "cgroup": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
        "cpus": os.cpu_count() or 0,
        "memory": memory(),
        "free": {path: free(path) for path in ("/var/lib", "/usr/local", "/etc")},
        "gpus": gpus(),
        "driver": read("/proc/driver/nvidia/version").split("\n")[0],
        "toolkit": run(["nvidia-ctk", "--version"])[1].split("\n")[0],
        "gpu_runtime": read("/etc/containerd/conf.d/paictl-nvidia.toml"),
        "devices": sorted(glob.glob("/etc/cdi/*")) + sorted(glob.glob("/var/run/cdi/*")),
        "units": units(["containerd", "kubelet", "paictl-kubeadm", "paictl-network", "paictl-address"]),
        "begun": read(BEGUN).strip(),
        "done": read(DONE).strip(),
        "network": read("/var/lib/paictl/network").strip(),
        "kubernetes": [p for p in ("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf", "/var/lib/etcd/member")
                       if os.path.exists(p)],
        "differences": differences(module.params),
    }  # fmt: skip
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
