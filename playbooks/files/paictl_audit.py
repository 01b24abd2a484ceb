# Part of paictl: evidence for `deploy audit`. Sent over stdin, Python 3.8 and newer, nothing else; as root. Only looks.
"""`python3 - WISH` with the wish as JSON: {"files": [patterns], "probes": {name: [port, path]}, "secrets": true}.

Prints what was found as JSON: modes and owners of files, arguments of the programs that run, answers to requests that
come without a certificate, and how many Secrets etcd has in plain text. Contents of files and Secrets are not printed.
"""

import base64
import glob
import grp
import json
import os
import pwd
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
SECRETS = [
    "etcdctl",
    "--endpoints",
    "https://127.0.0.1:2379",
    "--cacert",
    "/etc/kubernetes/pki/etcd/ca.crt",
    "--cert",
    "/etc/kubernetes/pki/etcd/server.crt",
    "--key",
    "/etc/kubernetes/pki/etcd/server.key",
    "get",
    "/registry/secrets/",
    "--prefix",
    "-w",
    "json",
]


def run(*command):
    """What a command prints; empty where it does not work."""
    env = dict(os.environ, PATH=PATH, LC_ALL="C.UTF-8")
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=env,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.decode(errors="replace")


def name_of(number, table):
    """The name of a user or group, or its number where it has none."""
    try:
        return table(number)[0]
    except KeyError:
        return str(number)


def files(patterns):
    """[path, mode, user:group] of all that match each pattern."""
    found = {}
    for pattern in patterns:
        rows = []
        for path in sorted(glob.glob(pattern, recursive=True)):
            status = os.stat(path)
            owner = "%s:%s" % (name_of(status.st_uid, pwd.getpwuid), name_of(status.st_gid, grp.getgrgid))
            rows.append([path, "%04o" % (status.st_mode & 0o7777), owner])
        found[pattern] = rows
    return found


def arguments(number):
    """The command line of a process; empty where it is gone."""
    try:
        with open("/proc/%s/cmdline" % number, "rb") as file:
            return [word.decode(errors="replace") for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def containers():
    """Running containers of the control plane: name -> id. Pods of others cannot take these names in kube-system."""
    try:
        rows = json.loads(run("crictl", "ps", "--state", "running", "-o", "json")).get("containers", [])
    except ValueError:
        return {}
    return {
        one["metadata"]["name"]: one["id"]
        for one in rows
        if one.get("labels", {}).get("io.kubernetes.pod.namespace") == "kube-system"
        and one["metadata"]["name"] in PROGRAMS
    }


def programs(ids):
    """The arguments that programs of Kubernetes on this machine run with; those that do not run are left out."""
    found = {}
    for name, container in ids.items():
        try:
            found[name] = arguments(json.loads(run("crictl", "inspect", container))["info"]["pid"])
        except (ValueError, KeyError):
            continue
    kubelet = run("systemctl", "show", "--property=MainPID", "--value", "kubelet").strip()
    if kubelet not in ("", "0"):
        found["kubelet"] = arguments(kubelet)
    return {name: words for name, words in found.items() if words}


def probe(scheme, port, path):
    """What a server of this machine says to somebody without a certificate: the status, or why there was no answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = "%s://127.0.0.1:%d%s" % (scheme, port, path)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=5) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except urllib.error.URLError as error:
        return "closed" if isinstance(error.reason, ConnectionRefusedError) else "refused"
    except (OSError, ValueError):
        return "refused"


def serving():
    """Who signed the certificate that kubelet serves with."""
    try:
        context = ssl.create_default_context(cafile="/etc/kubernetes/pki/ca.crt")
        context.check_hostname = False
        with socket.create_connection(("127.0.0.1", 10250), 5) as plain, context.wrap_socket(plain):
            return "kubernetes"
    except ssl.SSLCertVerificationError as error:
        return error.verify_message or "another authority"
    except OSError:
        return ""


def secrets(ids):
    """How many Secrets etcd has, and how many of them anybody who reads its disk could read."""
    if "etcd" not in ids:
        return None
    said = run("crictl", "exec", ids["etcd"], *SECRETS)
    try:
        rows = json.loads(said).get("kvs", [])
    except ValueError:
        return None
    plain = [one for one in rows if base64.b64decode(one["value"])[:8] != b"k8s:enc:"]
    return {"all": len(rows), "plain": len(plain)}


def main():
    """Look and tell."""
    wish = json.loads(sys.argv[1])
    ids = containers()
    found = {"files": files(wish["files"]), "programs": programs(ids), "host": socket.gethostname()}
    found["probes"] = {name: probe(*words) for name, words in wish["probes"].items()}
    found["serving"] = serving()
    if wish["secrets"]:
        found["secrets"] = secrets(ids)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
