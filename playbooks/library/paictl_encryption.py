#!/usr/bin/python
# Part of paictl.
"""Change how the API server of a master encrypts Secrets, and wait until it works with that."""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_encryption import FILE, FLAG, MANIFEST, OPERATIONS, WRITTEN, changed, writer
from ansible.module_utils.paictl_host import BEGUN, read, run, write

DOCUMENTATION = r"""
module: paictl_encryption
short_description: Change how the API server encrypts Secrets
description: [Makes the new file from that of this master, puts it in place, or notes what Secrets are written with.]
options:
  cluster: {description: What tells this cluster from another one., type: str, required: true}
  operation: {description: The step whose file is returned; nothing is written., type: str, default: ""}
  content: {description: The file to put in place; the API server starts again if it uses it., type: str, default: ""}
  written: {description: Whether to note that all Secrets are written with what writes now., type: bool, default: false}
  seconds: {description: How long the API server may take., type: int, default: 300}
author: [paictl]
"""
EXAMPLES = r"""
- name: Change
  paictl_encryption:
    cluster: prod
    operation: write
  no_log: true
"""
RETURN = r"""
content:
  description: The new file, with its keys.
  returned: with an operation
  type: str
"""


def ready():
    """Whether the API server of this machine answers."""
    code, out, _ = run(
        [
            "kubectl",
            "--kubeconfig",
            "/etc/kubernetes/admin.conf",
            "--request-timeout",
            "3s",
            "--server",
            "https://127.0.0.1:6443",
            "--tls-server-name",
            "kubernetes",
            "get",
            "--raw",
            "/readyz",
        ]
    )
    return code == 0 and out.strip() == "ok"


def pods():
    """The sandboxes of the API server that run."""
    return run(
        ["crictl", "pods", "--namespace", "kube-system", "--name", "^kube-apiserver-", "--state", "ready", "-q"]
    )[1].split()


def restart(seconds):
    """Start the API server again; whether a new one answers in time."""
    for pod in pods():
        run(["crictl", "stopp", pod], seconds=120)
        run(["crictl", "rmp", pod])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ready():
            return True
        time.sleep(0.5)
    return False


def put(module):
    """Put the file in place; the old one again, and the module fails, if the API server does not work with it."""
    content, before = module.params["content"], read(FILE)
    if before == content:
        return False
    if module.check_mode:
        return True
    if writer(content) != writer(before) and os.path.exists(WRITTEN):
        os.unlink(WRITTEN)  # before anything is written otherwise: who is interrupted now writes all Secrets again
    write(FILE, content, "0600")
    if FLAG in read(MANIFEST) and not restart(module.params["seconds"]):
        if before:
            write(FILE, before, "0600")
            restart(module.params["seconds"])
        module.fail_json(
            msg="the API server does not start with the new keys and has the old ones again",
            hint="on this machine, see: crictl ps -a --name kube-apiserver; then apply again",
        )
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "operation": {"type": "str", "default": ""},
            "content": {"type": "str", "default": "", "no_log": True},
            "written": {"type": "bool", "default": False},
            "seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    begun, params = read(BEGUN).strip(), module.params
    if begun != params["cluster"]:
        module.fail_json(msg="this machine belongs to %s" % (begun or "no cluster of paictl"))
    if params["operation"] in OPERATIONS:
        module.exit_json(changed=False, content=changed(read(FILE), params["operation"]))
    done = bool(params["content"]) and put(module)
    if params["written"]:
        name = writer(read(FILE)) + "\n"
        done = done or read(WRITTEN) != name
        if not module.check_mode:
            write(WRITTEN, name, "0644")
    module.exit_json(changed=done)


if __name__ == "__main__":
    main()
