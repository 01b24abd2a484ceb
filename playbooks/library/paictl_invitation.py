#!/usr/bin/python
# Part of paictl.
"""Let machines into a cluster for two hours, and end that."""

import datetime
import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import run, write

DOCUMENTATION = r"""
module: paictl_invitation
short_description: Let machines into a cluster, and end that
description: [Makes or deletes a bootstrap token; for further masters it uploads the certificates, sealed with a key.]
options:
  state: {description: Whether machines may join., type: str, choices: [present, absent], default: present}
  token: {description: The token., type: str, required: true}
  certificate_key: {description: "The key of the certificates; empty for none", type: str, default: ""}
author: [paictl]
"""
EXAMPLES = r"""
- name: Invite
  paictl_invitation:
    token: "{{ paictl_token }}"
"""
RETURN = r"""
"""
ADMIN = {"KUBECONFIG": "/etc/kubernetes/admin.conf"}
CONFIG = "/run/paictl/upload.json"


def secret(token, now):
    """The Secret that kubeadm makes of a token."""
    identity, _, value = token.partition(".")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-" + identity, "namespace": "kube-system"},
        "stringData": {
            "token-id": identity,
            "token-secret": value,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            "expiration": (now + datetime.timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }


def upload(module, key):
    """Upload the certificates for further masters; ends the module if that does not work."""
    os.makedirs(os.path.dirname(CONFIG), mode=0o700, exist_ok=True)
    version = run(["kubeadm", "version", "-o", "short"])[1].strip()  # else kubeadm would ask the internet for it
    api = {"apiVersion": "kubeadm.k8s.io/v1beta4"}
    registration = {"criSocket": "unix:///run/containerd/containerd.sock"}
    parts = [
        {**api, "kind": "InitConfiguration", "certificateKey": key, "nodeRegistration": registration},
        {**api, "kind": "ClusterConfiguration", "kubernetesVersion": version},
    ]
    write(CONFIG, "\n---\n".join(map(json.dumps, parts)), "0600")
    code, _, error = run(["kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", CONFIG])
    os.unlink(CONFIG)
    if code:
        module.fail_json(msg="the certificates cannot be uploaded: " + error.strip()[-300:])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "token": {"type": "str", "required": True, "no_log": True},
            "certificate_key": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True)
    token, key = module.params["token"], module.params["certificate_key"]
    text = json.dumps(secret(token, datetime.datetime.now(datetime.timezone.utc)))
    verb = ["apply", "-f", "-"] if module.params["state"] == "present" else ["delete", "--ignore-not-found", "-f", "-"]
    code, _, error = run(["kubectl", *verb], text=text, environment=ADMIN)
    if code:
        module.fail_json(msg="the API server takes no invitation: " + error.strip()[-300:])
    if key and module.params["state"] == "present":
        upload(module, key)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
