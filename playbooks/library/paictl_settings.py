#!/usr/bin/python
# Part of paictl.
"""Apply changed settings of a running cluster on this machine by kubeadm, and note what was applied.

kubeadm keeps the configuration in the cluster, writes manifests and kubelet's file from it, waits until a component
runs with its new manifest, and puts the old one back where it does not. kubelet's file is put back here likewise.
"""

import glob
import json
import os
import re
import time
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import BEGUN, NOTE, chmod, read, run, write
from ansible.module_utils.paictl_unit import LOG, last_words, start, wait

DOCUMENTATION = r"""
module: paictl_settings
short_description: Apply changed settings of a running cluster
description: [The configuration is stored first; a component that does not start gets its old settings back.]
options:
  cluster: {description: What tells this cluster from another one., type: str, required: true}
  configuration: {description: "kubeadm's configuration to store; empty for none", type: str, default: ""}
  proxy: {description: Whether kube-proxy starts again with new settings., type: bool, default: false}
  control_plane: {description: Whether the control plane's manifests are written again., type: bool, default: false}
  etcd: {description: Whether etcd's is, too., type: bool, default: false}
  kubelet: {description: Whether kubelet's file is written again., type: bool, default: false}
  healthz: {description: "kubelet's port to ask whether it works; 0 for none", type: int, default: 10248}
  modes: {description: "Files that kubeadm writes, and the mode (octal, as text) they get", type: dict, default: {}}
  note: {description: What is noted when all is done., type: str, required: true}
  seconds: {description: How long a step may take., type: int, default: 300}
author: [paictl]
"""
EXAMPLES = r"""
- name: Settings
  paictl_settings:
    cluster: prod
    kubelet: true
    note: "{}"
"""
RETURN = r"""
"""
CONFIGURATION = "/run/paictl/settings.yaml"
KUBELET = "/var/lib/kubelet/config.yaml"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
ENDED = "/run/paictl/settings-done"
ADMIN = "KUBECONFIG=/etc/kubernetes/admin.conf"
STARTING = ("connection refused", "connection reset", "no relationship found", "unexpected EOF", "ServiceUnavailable")
"""What kubeadm says of an API server that starts again: it is not there yet, or has not read who may do what."""
RESTARTS = 5
"""A kubelet that systemd has started so often again does not come up."""
PAUSE = 10
"""Seconds until kubeadm, which takes up all that was not done, is started again then."""


def commands(params):
    """The command lines of kubeadm and kubectl, in their order."""
    found = []
    if params["configuration"]:
        found += [
            "kubeadm init phase upload-config kubeadm --config " + CONFIGURATION,
            "kubeadm init phase upload-config kubelet --config " + CONFIGURATION,
        ]
    if params["proxy"]:
        found += [
            "kubeadm init phase addon kube-proxy --config " + CONFIGURATION,
            ADMIN + " kubectl -n kube-system rollout restart daemonset/kube-proxy",
        ]
    if params["control_plane"]:
        etcd = "true" if params["etcd"] else "false"
        found.append("kubeadm upgrade node phase control-plane --certificate-renewal=false --etcd-upgrade=" + etcd)
    if params["kubelet"]:
        found.append("kubeadm upgrade node phase kubelet-config")
    return found


def healthy(port, seconds=120):
    """Whether kubelet works within some seconds after it was started; without a port, whether it stays active.

    A kubelet that ends again and again refuses its file: do not wait for it.
    """
    end, before = time.monotonic() + seconds, restarts()
    while time.monotonic() < end:
        time.sleep(0.5 if port else 5)
        try:
            if not port:
                return run(["systemctl", "is-active", "kubelet"])[1].strip() == "active"
            with urllib.request.urlopen("http://127.0.0.1:%d/healthz" % port, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            pass
        if restarts() >= before + RESTARTS:
            return False
    return False


def restarts():
    """How often systemd has started kubelet again; it goes on counting if we restart one that ends again and again."""
    count = run(["systemctl", "show", "kubelet", "--property=NRestarts", "--value"])[1].strip()
    return int(count) if count.isdigit() else 0


def reason():
    """Why kubelet does not work: the last error that it logged itself, without systemd's remarks about it."""
    journal = ["journalctl", "_SYSTEMD_UNIT=kubelet.service", "-n", "200", "-o", "cat", "--no-pager"]
    lines = [line.strip() for line in run(journal)[1].splitlines()]
    errors = [line for line in lines if re.match(r"E\d{4} ", line)] or [line for line in lines if "rror" in line]
    if not errors:
        return "it does not become healthy"
    found = re.search(r'"command failed" err="(.*)"', errors[-1])
    return (found.group(1) if found else errors[-1])[:300]


def old_port(configuration):
    """The port to ask in kubelet's file as it was before."""
    found = re.search(r"^healthzPort: (\d+)$", configuration, re.MULTILINE)
    return int(found.group(1)) if found else 10248


def restart_kubelet(module, before):
    """Start kubelet with its new file; with the old one again, and the module fails, if it does not work."""
    run(["systemctl", "restart", "kubelet"])
    if healthy(module.params["healthz"]):
        return
    why = reason()
    write(KUBELET, before, "0600")
    run(["systemctl", "restart", "kubelet"])
    said = "kubelet does not work with the new settings and has the old ones again: " + why
    hint = "correct deploy: kubelet in config.yaml and apply again"
    if not healthy(old_port(before), module.params["seconds"]):
        said = "kubelet works neither with the new settings (%s) nor with the old ones: %s" % (why, reason())
        hint = "see journalctl -u kubelet on this machine; then apply again"
    module.fail_json(msg=said, hint=hint)


def tidy():
    """Remove files that the API server read before: their names hold the hash of their content."""
    manifest = read(MANIFEST)
    for path in glob.glob("/etc/kubernetes/paictl/audit-policy-*") + glob.glob("/etc/kubernetes/paictl/authentic*"):
        if manifest and path not in manifest:
            os.unlink(path)


def apply(command, seconds):
    """Run the commands, up to three times while the API server starts; what went wrong, empty if nothing did."""
    for last in (False, False, True):
        problem = start(command, seconds)
        if not problem and os.path.exists(ENDED):
            return ""
        said = problem or last_words()
        if last or not any(words in said for words in STARTING):
            return said
        time.sleep(PAUSE)


def noted():
    """What was noted so far, by section; empty if that cannot be read."""
    try:
        note = json.loads(read(NOTE, "{}"))
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def unfinished(note, before):
    """The note while sections change: it is not known what is in force of them, and they are applied anew next time.

    The others stay noted. If all were unknown, etcd and the API server would start again for a setting of kubelet.
    """
    return {name: value if before.get(name) == value else None for name, value in note.items()}


def work(module):
    """Do it; ends the module if it does not work."""
    params, lines = module.params, commands(module.params)
    before = read(KUBELET)
    os.makedirs(os.path.dirname(CONFIGURATION), mode=0o700, exist_ok=True)
    if params["configuration"]:
        write(CONFIGURATION, params["configuration"], "0600")
    if os.path.exists(ENDED):
        os.unlink(ENDED)
    note = json.loads(params["note"])
    write(NOTE, json.dumps(unfinished(note, noted())), "0600")
    said = apply(" && ".join([*lines, "touch " + ENDED]), params["seconds"])
    if os.path.exists(CONFIGURATION):
        os.unlink(CONFIGURATION)
    if said:
        module.fail_json(
            msg="the settings cannot be applied: " + said,
            hint="see %s on this machine; correct config.yaml and apply again" % LOG,
        )
    os.unlink(ENDED)
    if params["kubelet"]:
        write(NOTE, json.dumps(dict(note, kubelet=None)), "0600")
        restart_kubelet(module, before)
    chmod(params["modes"])
    tidy()
    write(NOTE, params["note"], "0600")


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "configuration": {"type": "str", "default": ""},
            "proxy": {"type": "bool", "default": False},
            "control_plane": {"type": "bool", "default": False},
            "etcd": {"type": "bool", "default": False},
            "kubelet": {"type": "bool", "default": False},
            "healthz": {"type": "int", "default": 10248},
            "modes": {"type": "dict", "default": {}},
            "note": {"type": "str", "required": True},
            "seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    begun = read(BEGUN).strip()
    if begun != module.params["cluster"]:
        module.fail_json(msg="this machine belongs to %s" % (begun or "no cluster of paictl"))
    if not module.check_mode:
        if not wait(module.params["seconds"]):
            module.fail_json(msg="kubeadm, which was begun before, is still at work", hint="see " + LOG)
        work(module)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
