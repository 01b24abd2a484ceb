#!/usr/bin/python
# Part of paictl. Looks and changes nothing.
"""What a host is, and in what it differs from what it shall be."""

import glob
import os
import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_encryption import state as encryption_state
from ansible.module_utils.paictl_gather import gather
from ansible.module_utils.paictl_host import (
    BEGUN,
    DONE,
    LOCK,
    NOTE,
    active_swap,
    differing_files,
    ended_certificates,
    images,
    installed,
    is_installed,
    left_files,
    loose_files,
    missing_images,
    missing_modules,
    packed_files,
    read,
    run,
    stale_pins,
    swap_lines,
    wrong_sysctls,
)
from ansible.module_utils.paictl_node_dns import state as node_dns_state

DOCUMENTATION = r"""
module: paictl_facts
short_description: What a host is, and in what it differs from what it shall be
description: [Looks and changes nothing.]
options:
  programs: {description: Programs with the SHA-256 of their artifacts., type: list, elements: dict, default: []}
  files: {description: Files with content and mode., type: list, elements: dict, default: []}
  owned: {description: Patterns of files that paictl removes., type: list, elements: str, default: []}
  images: {description: Archives of images., type: list, elements: dict, default: []}
  pack: {description: Where programs and images are pushed to., type: path, required: true}
  modules: {description: Kernel modules., type: list, elements: str, default: []}
  sysctls: {description: Kernel settings., type: dict, default: {}}
  swap_allowed: {description: Whether swap may be on., type: bool, default: false}
  modes: {description: "Files that let others do too much, by pattern, with their mode", type: dict, default: {}}
  node: {description: The name of the node., type: str, required: true}
  asked: {description: What paictl_gather shall look at., type: dict, required: true}
author: [paictl]
"""
EXAMPLES = r"""
- name: Look
  paictl_facts:
    node: "{{ inventory_hostname }}"
    asked: "{{ paictl_asked }}"
"""
RETURN = r"""
facts:
  description: What was found.
  returned: always
  type: dict
"""


def units(names):
    """State of units, in the order of their names."""
    _, out, _ = run(["systemctl", "is-active", *names])
    return {name: state for name, state in zip(names, out.split())}  # noqa: B905, C416


def differences(wanted):
    """What is not as it shall be, by kind."""
    known = installed()
    return {
        "programs": [one["name"] for one in wanted["programs"] if not is_installed(one, known)],
        "files": [one["path"] for one in differing_files(wanted["files"])]
        + ["-" + path for path in left_files(wanted["files"], wanted["owned"])],
        "modes": [path for path, _ in loose_files(wanted["modes"])],
        "images": [one["archive"] for one in missing_images(wanted["images"], images())],
        "pins": stale_pins(wanted["images"]),
        "modules": missing_modules(wanted["modules"]),
        "sysctls": sorted(wrong_sysctls(wanted["sysctls"])),
        "swap": [] if wanted["swap_allowed"] else active_swap() + swap_lines(read("/etc/fstab")),
    }


def packed(wanted, lacking):
    """Of what is lacking, the files that a run which did not get to the end has pushed already."""
    files = {one["file"]: one["sha256"] for one in wanted["programs"] if one["name"] in lacking["programs"]}
    files.update({one["archive"]: one["sha256"] for one in wanted["images"] if one["archive"] in lacking["images"]})
    return packed_files(wanted["pack"], files)


def cluster():
    """Settings that the cluster of this master began with and keeps, from the files of its control plane."""
    manifest = read("/etc/kubernetes/manifests/kube-controller-manager.yaml")
    issuer = read("/etc/kubernetes/manifests/kube-apiserver.yaml")

    def first(pattern, text):
        found = re.search(pattern, text, re.MULTILINE)
        return found.group(1).strip("\"'") if found else ""

    return {
        "pods": first(r"--cluster-cidr=(\S+)", manifest),
        "services": first(r"--service-cluster-ip-range=(\S+)", manifest),
        "repository": first(r"image: *(\S+)/kube-controller-manager:", manifest),
        "endpoint": first(r"^ *server: *https://(\S+)", read("/etc/kubernetes/admin.conf")),
        "domain": first(r"--service-account-issuer=https://kubernetes\.default\.svc\.(\S+)", issuer),
    }


UNITS = [
    "containerd",
    "kubelet",
    "paictl-kubeadm",
    "paictl-network",
    "paictl-firewall",
    "paictl-address",
    "paictl-certificates",
    "paictl-node-dns",
]


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "programs": {"type": "list", "elements": "dict", "default": []},
            "files": {"type": "list", "elements": "dict", "default": []},
            "owned": {"type": "list", "elements": "str", "default": []},
            "images": {"type": "list", "elements": "dict", "default": []},
            "modules": {"type": "list", "elements": "str", "default": []},
            "sysctls": {"type": "dict", "default": {}},
            "swap_allowed": {"type": "bool", "default": False},
            "modes": {"type": "dict", "default": {}},
            "pack": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "asked": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    found = differences(module.params)
    facts = {
        "host": gather(module.params["asked"]),
        "toolkit": run(["nvidia-ctk", "--version"])[1].split("\n")[0],
        "gpu_runtime": read("/etc/containerd/conf.d/paictl-nvidia.toml"),
        "devices": sorted(glob.glob("/etc/cdi/*")) + sorted(glob.glob("/var/run/cdi/*")),
        "units": units(UNITS),
        "kubelet": run(["kubelet", "--version"])[1].strip().replace("Kubernetes ", "") if read(DONE) else "",
        "begun": read(BEGUN).strip(),
        "done": read(DONE).strip(),
        "network": read("/var/lib/paictl/network").strip(),
        "storage": read("/var/lib/paictl/storage-class").strip(),
        "node_dns": node_dns_state(),
        "settings": read(NOTE),
        "lock": read(LOCK),
        "cluster": cluster(),
        "encryption": encryption_state(),
        "ended": ended_certificates(time.time()),
        "kubernetes": [
            p
            for p in ("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf", "/var/lib/etcd/member")
            if os.path.exists(p)
        ],
        "differences": found,
        "packed": packed(module.params, found),
    }
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
