# Part of paictl: how the API server encrypts Secrets. Runs on masters with Python 3.8 or newer and nothing else.
"""The API server's EncryptionConfiguration: which keys it reads with, and which one it writes with.

The first provider writes, all of them read. A master must never meet what it cannot read, so every change goes in
two steps over all masters: first all of them read with what comes, then they write with it. Keys are never removed:
a backup of etcd from before a rotation can be restored. The file lies among the certificates, which backups hold and
kubeadm mounts into the API server.
"""

import base64
import json
import os

from ansible.module_utils.paictl_host import STATE, read, write

FILE = "/etc/kubernetes/pki/paictl-encryption.json"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
FLAG = "--encryption-provider-config=" + FILE
WRITTEN = STATE + "/secrets-written"
"""On the first master: what all Secrets are written with; the name of a key, or `identity` for none."""
IDENTITY = "identity"
OPERATIONS = ("keep", "begin", "write", "stop", "add", "promote")


def new_key(number):
    """A key of 32 bytes for secretbox (XSalsa20 and Poly1305), named by its number."""
    return {"name": "key%d" % number, "secret": base64.b64encode(os.urandom(32)).decode()}


def document(keys, encrypts):
    """The text of the file: keys in their order, before plain text if Secrets are encrypted, else behind it."""
    providers = [{"secretbox": {"keys": keys}}, {IDENTITY: {}}]
    rule = {"resources": ["secrets"], "providers": providers if encrypts else providers[::-1]}
    made = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}
    return json.dumps(made, indent=1) + "\n"


def parsed(text):
    """The keys of a file and whether Secrets are encrypted; no keys where there is no file."""
    if not text:
        return [], False
    providers = json.loads(text)["resources"][0]["providers"]
    keys = next(one["secretbox"]["keys"] for one in providers if "secretbox" in one)
    return keys, "secretbox" in providers[0]


def number(key):
    """Which key it is, from 1."""
    return int(key["name"][len("key") :])


def changed(text, operation):
    """The file after a step.

    keep: as it is, empty where there is none; begin: there is a key, which is read; write: Secrets are encrypted; stop:
    they are not any more; add: a new key is read; promote: the newest key writes. A step that was done changes nothing.
    """
    if operation == "keep":
        return text
    keys, encrypts = parsed(text)
    keys = keys or [new_key(1)]
    newest = max(keys, key=number)
    if operation == "add" and keys[0] is newest:
        keys = [*keys, new_key(number(newest) + 1)]
    elif operation == "promote":
        keys = [newest, *(one for one in keys if one is not newest)]
    if operation in ("begin", "write", "stop"):
        encrypts = operation == "write"
    return document(keys, encrypts)


def writer(text):
    """The name of what writes."""
    keys, encrypts = parsed(text)
    return keys[0]["name"] if encrypts else IDENTITY


def begin():
    """Secrets of a cluster that begins here are encrypted from its first one on; a file that is there is kept."""
    text = read(FILE) or document([new_key(1)], encrypts=True)
    write(FILE, text, "0600")
    write(WRITTEN, writer(text) + "\n", "0644")


def state():
    """What this master does: whether its API server has the file, what writes, and what Secrets are written with."""
    text = read(FILE)
    try:
        name = writer(text) if text else ""
    except (ValueError, KeyError, IndexError, StopIteration, TypeError):
        name = "damaged"
    return {"used": FLAG in read(MANIFEST), "writer": name, "written": read(WRITTEN).strip()}
