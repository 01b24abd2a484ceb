#!/usr/bin/python
# Part of paictl.
"""Let kubeadm begin a cluster, join one, or take a machine out, in a way that survives its caller.

kubeadm runs as the unit paictl-kubeadm: a link that is cut, or a control node that is killed, does not end it half way,
and whoever comes again waits for it. Two notes on the disk tell what was begun and what was done, and by which cluster.
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_encryption import FILE as ENCRYPTION
from ansible.module_utils.paictl_encryption import begin as begin_encryption
from ansible.module_utils.paictl_host import BEGUN, DONE, NOTE, chmod, read, run, write
from ansible.module_utils.paictl_unit import LOG, last_words, start, wait

DOCUMENTATION = r"""
module: paictl_kubeadm
short_description: Begin or join a cluster by kubeadm
description: [What was begun by the same cluster and not done is reset first; another cluster's is never touched.]
options:
  action: {description: init or join, type: str, choices: [init, join], required: true}
  cluster: {description: What tells this cluster from another one., type: str, required: true}
  config: {description: Path of kubeadm's configuration., type: path, required: true}
  content: {description: kubeadm's configuration., type: str, required: true}
  discovery: {description: Where the cluster is and whose certificates count, as a kubeconfig., type: str, default: ""}
  settings: {description: What is noted of the settings that it begins or joins with., type: str, default: ""}
  encrypts: {description: Whether a cluster that begins encrypts its Secrets., type: bool, default: false}
  encryption: {description: "How the API server encrypts Secrets, of a further master", type: str, default: ""}
  modes: {description: "Files that kubeadm writes, and the mode (octal, as text) they get", type: dict, default: {}}
  seconds: {description: How long it may take., type: int, default: 300}
author: [paictl]
"""
EXAMPLES = r"""
- name: Join
  paictl_kubeadm:
    action: join
    cluster: prod
    config: /run/paictl/kubeadm.yaml
    content: "{{ paictl_kubeadm_config }}"
"""
RETURN = r"""
"""
TRACES = (
    "/etc/kubernetes/kubelet.conf",
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/manifests/etcd.yaml",
    "/var/lib/etcd/member",
)
DISCOVERY = "/run/paictl/discovery.conf"


def reset():
    """Undo what was begun and not done."""
    run(["kubeadm", "reset", "--force"], seconds=180)
    for path in ("/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf"):
        if os.path.exists(path):
            os.unlink(path)


def obstacle(cluster):
    """Why this machine must not be touched; empty if it may be."""
    begun = read(BEGUN).strip()
    if begun not in ("", cluster):
        return "belongs to the cluster %s" % begun
    found = [path for path in TRACES if os.path.exists(path)]
    if found and not begun:
        return "has another Kubernetes: %s" % ", ".join(found)
    return ""


def ended(cluster):
    """Whether it is done: kubeadm says so by the note that the unit writes after it."""
    return read(DONE).strip() == cluster and os.path.exists("/etc/kubernetes/kubelet.conf")


def work(module):
    """Do it; ends the module if it does not work."""
    params, cluster = module.params, module.params["cluster"]
    if os.path.exists(BEGUN):
        reset()
    os.makedirs(os.path.dirname(BEGUN), exist_ok=True)
    os.makedirs(os.path.dirname(params["config"]), mode=0o700, exist_ok=True)
    write(params["config"], params["content"], "0600")
    if params["discovery"]:
        write(DISCOVERY, params["discovery"], "0600")
    if params["encrypts"] and params["action"] == "init":
        begin_encryption()
    if params["encryption"]:
        write(ENCRYPTION, params["encryption"], "0600")
    write(NOTE, params["settings"], "0600")
    write(BEGUN, cluster + "\n", "0644")
    note = "printf '%s\\n' '{0}' >{1}.new && mv {1}.new {1}".format(cluster, DONE)
    command = "kubeadm %s --config '%s' && %s" % (params["action"], params["config"], note)
    problem = start(command, params["seconds"])
    for path in (params["config"], DISCOVERY):
        if os.path.exists(path):
            os.unlink(path)
    if problem or not ended(cluster):
        module.fail_json(
            msg="kubeadm %s: %s" % (params["action"], problem or last_words()),
            hint="%s on this machine has all of it; apply again when it is mended" % LOG,
        )
    chmod(params["modes"])
    if params["action"] == "init":  # kubeadm leaves a token that lets machines in for a day; joins make their own
        chosen = "--field-selector=type=bootstrap.kubernetes.io/token"
        run(
            ["kubectl", "-n", "kube-system", "delete", "secrets", chosen],
            environment={"KUBECONFIG": "/etc/kubernetes/admin.conf"},
        )


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["init", "join"], "required": True},
            "cluster": {"type": "str", "required": True},
            "config": {"type": "path", "required": True},
            "content": {"type": "str", "required": True, "no_log": True},
            "discovery": {"type": "str", "default": ""},
            "settings": {"type": "str", "default": ""},
            "encrypts": {"type": "bool", "default": False},
            "encryption": {"type": "str", "default": "", "no_log": True},
            "modes": {"type": "dict", "default": {}},
            "seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    cluster = module.params["cluster"]
    problem = obstacle(cluster)
    if problem:
        module.fail_json(msg="this machine " + problem, hint="paictl deploy reset --node takes it out of its cluster")
    if not module.check_mode and not wait(module.params["seconds"]):
        module.fail_json(msg="kubeadm, which was begun before, is still at work", hint="see " + LOG)
    if ended(cluster):
        module.exit_json(changed=False)
    if not module.check_mode:
        work(module)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
