# Part of paictl; runs on every master, as root, with Python 3.8 or newer and nothing else.
"""Certificates that would end, or that nobody would sign.

Kubelets ask the cluster for the certificates that they serve with. Kubernetes signs them once somebody approves, which
nobody does by himself: here a request is approved if a node asks for its own name and addresses. And the certificates
of this master are renewed 30 days before they end; the control plane then starts again, one master at a time.

After a year without power all of them have ended, and a kubelet whose certificate has ended does not even start. A
master has the authority's key: it signs a new certificate for its own kubelet. Workers are let in again by
`paictl deploy certs renew`, which sends this program to each machine: `python3 - NODE VERB`.
"""

import base64
import datetime
import ipaddress
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

KUBECONFIG = "/etc/kubernetes/admin.conf"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kubelet-serving"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = "paictl-certificates"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SOON = 30 * 86400
"""Seconds before their end at which certificates are renewed."""
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""With which the kubelet of this machine signs in: a link to a file with certificate and key, as kubelets make it."""
BOOTSTRAP = "/etc/kubernetes/bootstrap-kubelet.conf"
"""The invitation by which a kubelet without a certificate asks for one; its unit names the file."""
RUN = "/run/paictl"
INVITED = "15m"
"""How long kubelets may take to fetch their certificates."""
PAUSE = 5
ROUND = 3600
"""Seconds between two looks at the certificates of this master."""
HELD = 600
"""Seconds that a renewal may take before another master takes its turn."""
START = 200
"""Seconds that a control plane or a kubelet may take to start."""
USAGES = {"digital signature", "key encipherment", "server auth"}
SUBJECT_NAME, ORGANIZATION, EXTENSIONS, OTHER_NAMES = "550403", "55040a", "2a864886f70d01090e", "551d11"
"""Object identifiers as their bytes in DER."""
VERSION, UTC_TIME = 0xA0, 0x17
"""Tags in DER: the version of a certificate, which may be left out, and a time with two digits for the year."""


class MalformedError(ValueError):
    """A request that is not as RFC 2986 has it, or a certificate that is not as RFC 5280 has it."""


class RefusedError(Exception):
    """Why a verb does not work, in a line."""


def parts(data):
    """[(tag, content)] of a DER sequence's content."""
    found, at = [], 0
    while at < len(data):
        try:
            tag, size, at = data[at], data[at + 1], at + 2
            if size & 0x80:
                digits = size & 0x7F
                if not 1 <= digits <= 4 or at + digits > len(data):
                    raise MalformedError("length")
                size, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        except IndexError:
            raise MalformedError("it ends early") from None
        if at + size > len(data):
            raise MalformedError("it ends early")
        found.append((tag, data[at : at + size]))
        at += size
    return found


def request_names(pem):
    """Common name, organizations, DNS names and addresses of a certificate request; raises `MalformedError`.

    Other kinds of names (URIs, e-mail) count as DNS names, so that nothing is approved with them.
    """
    body = re.search(r"-----BEGIN CERTIFICATE REQUEST-----(.+?)-----END CERTIFICATE REQUEST-----", pem, re.DOTALL)
    if body is None:
        raise MalformedError("no request")
    try:
        ((_, request),) = parts(base64.b64decode(body.group(1)))
        _, subject, _, *attributes = parts(parts(request)[0][1])
        common, organizations, names = [], [], []
        for _, relative in parts(subject[1]):
            for _, pair in parts(relative):
                (_, kind), (_, value) = parts(pair)
                {SUBJECT_NAME: common, ORGANIZATION: organizations}.get(kind.hex(), names).append(value.decode())
        others, addresses = other_names(attributes)
    except (ValueError, IndexError) as error:
        raise MalformedError(str(error)) from None
    if len(common) != 1:
        raise MalformedError("one common name is due")
    return common[0], organizations, names + others, addresses


def other_names(attributes):
    """The names and addresses in the extension for alternative names, among the attributes of a request."""
    names, addresses = [], []
    for _, attribute in [one for _, group in attributes for one in parts(group)]:
        (_, kind), (_, values) = parts(attribute)
        if kind.hex() != EXTENSIONS:
            continue
        for _, extension in [one for _, group in parts(values) for one in parts(group)]:
            fields = parts(extension)
            if fields[0][1].hex() == OTHER_NAMES:
                for tag, value in [one for _, group in parts(fields[-1][1]) for one in parts(group)]:
                    if tag == 0x87:
                        addresses.append(address_of(value))
                    else:
                        names.append(value.decode(errors="replace"))
    return names, addresses


def address_of(value):
    """An address of 4 or 16 bytes as text."""
    return str(ipaddress.ip_address(value))


def end_of(pem):
    """When the first certificate of a PEM text ends, in seconds; raises `MalformedError`."""
    body = re.search(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", pem, re.DOTALL)
    if body is None:
        raise MalformedError("no certificate")
    try:
        ((_, certificate),) = parts(base64.b64decode(body.group(1)))
        fields = [content for tag, content in parts(parts(certificate)[0][1]) if tag != VERSION]
        _, (kind, written) = parts(fields[3])  # after number, algorithm, issuer: valid from, valid until
        form = "%y%m%d%H%M%SZ" if kind == UTC_TIME else "%Y%m%d%H%M%SZ"
        end = datetime.datetime.strptime(written.decode(), form)
    except (ValueError, IndexError) as error:
        raise MalformedError(str(error)) from None
    return end.replace(tzinfo=datetime.timezone.utc).timestamp()


def objection(request, nodes):
    """Why a request for a serving certificate is not approved; empty if it is. `nodes` are all nodes of the cluster."""
    spec = request["spec"]
    user = spec.get("username", "")
    own = user[len("system:node:") :] if user.startswith("system:node:") else ""
    if not own or "system:nodes" not in spec.get("groups", ()):
        return "not asked by a node"
    if not set(spec.get("usages", ())) <= USAGES:
        return "usages"
    try:
        common, organizations, names, addresses = request_names(base64.b64decode(spec["request"]).decode())
    except ValueError as error:
        return "malformed: %s" % error
    if common != user or organizations != ["system:nodes"]:
        return "another name"
    if not addresses and not names:
        return "no names"
    known = {one["metadata"]["name"]: one.get("status", {}).get("addresses", []) for one in nodes}
    if own not in known:
        return "no such node"
    mine = {one["address"] for one in known[own] if one["type"].endswith("IP")}
    others = {one["address"] for name, found in known.items() if name != own for one in found}
    hosts = {own, *(one["address"] for one in known[own] if not one["type"].endswith("IP"))}
    if not set(addresses) <= mine or not set(names) <= hosts:
        return "names that the node does not have"
    if (set(addresses) | set(names)) & (others | (set(known) - {own})):
        return "names of another node"
    return ""


def field(text, name):
    """The value of a field of a kubeconfig as kubeadm writes it, one field a line."""
    found = re.search(r"^\s*%s:\s*(\S+)\s*$" % re.escape(name), text, re.MULTILINE)
    return found.group(1) if found else ""


class Api:
    """The API server, asked as administrator."""

    def __init__(self, text):
        self.server = field(text, "server")
        authority = base64.b64decode(field(text, "certificate-authority-data")).decode()
        self.context = ssl.create_default_context(cadata=authority)
        handle = os.memfd_create("certificate")  # Python takes a file only; this one is never on a disk
        try:
            for name in ("client-certificate-data", "client-key-data"):
                os.write(handle, base64.b64decode(field(text, name)) + b"\n")
            self.context.load_cert_chain("/proc/self/fd/%d" % handle)
        finally:
            os.close(handle)

    def ask(self, path, method="GET", body=None):
        """What the server answers, as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=20, context=self.context) as answer:
            return json.load(answer)


def approve(api, passed):
    """Approve what may be; requests that are not are said once, by the names in `passed`, and left to people."""
    found = api.ask(REQUESTS + "?fieldSelector=spec.signerName%3D" + SIGNER.replace("/", "%2F")).get("items", [])
    waiting = [one for one in found if not one.get("status", {}).get("conditions")]
    nodes = api.ask("/api/v1/nodes").get("items", []) if waiting else []
    for one in waiting:
        name = one["metadata"]["name"]
        why = objection(one, nodes)
        if why:
            if (name, why) not in passed:
                print("%s of %s is not approved: %s" % (name, one["spec"].get("username"), why), flush=True)
            passed.add((name, why))
            continue
        now = instant(time.time())
        one.setdefault("status", {})["conditions"] = [
            {
                "type": "Approved",
                "status": "True",
                "reason": "PaictlNode",
                "lastUpdateTime": now,
                "message": "a node asks for its own name and addresses",
            }
        ]
        api.ask("%s/%s/approval" % (REQUESTS, name), "PUT", one)
        print("%s of %s is approved" % (name, one["spec"]["username"]), flush=True)


def instant(seconds):
    """A time as the API has it."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def seconds_of(text):
    """The time that `instant` or kubeadm has written."""
    return datetime.datetime.strptime(text[:19] + "+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp()


def ending(said, now):
    """The names of certificates, in what `kubeadm certs check-expiration -o json` says, that end soon or have."""
    found = json.loads(said).get("certificates", [])
    return [one["name"] for one in found if not one.get("missing") and seconds_of(one["expirationDate"]) - now < SOON]


def run(*command):
    """Exit code and output of a command."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, PATH=PATH),
        universal_newlines=True,
        check=False,
    )
    return done.returncode, done.stdout


def take(api, own, now):
    """Take the lease of renewals; whether it is ours now."""
    spec = {"holderIdentity": own, "leaseDurationSeconds": HELD, "renewTime": instant(now)}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec}
    try:
        held = api.ask("%s/%s" % (LEASES, LEASE))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 404:
            raise
        held = None
    try:
        if held is None:
            api.ask(LEASES, "POST", body)
            return True
        old = held["spec"]
        if old.get("holderIdentity") not in ("", None, own) and seconds_of(old["renewTime"]) + HELD > now:
            return False
        body["metadata"]["resourceVersion"] = held["metadata"]["resourceVersion"]
        api.ask("%s/%s" % (LEASES, LEASE), "PUT", body)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 409:  # another master was quicker
            return False
        raise
    return True


def release(api, own):
    """Give the lease to the next master."""
    held = api.ask("%s/%s" % (LEASES, LEASE))
    if held["spec"].get("holderIdentity") == own:
        held["spec"]["holderIdentity"] = ""
        api.ask("%s/%s" % (LEASES, LEASE), "PUT", held)


def restart():
    """Start the control plane of this master again: it reads certificates only when it starts."""
    for program in PROGRAMS:
        pods = run("crictl", "pods", "--namespace", "kube-system", "--name", "^%s-" % program, "--state", "ready", "-q")
        for pod in pods[1].split():
            run("crictl", "stopp", pod)
            run("crictl", "rmp", pod)


def renew(own):
    """Renew what ends soon; whether nothing is left to do for this round."""
    code, said = run("kubeadm", "certs", "check-expiration", "-o", "json")
    now = time.time()
    start = said.find("{")
    names = ending(said[start:], now) if code == 0 and start >= 0 else []
    if not names:
        revive_kubelet(own, now)
        return True
    try:
        if not take(Api(read(KUBECONFIG)), own, now):
            return False
    except OSError as error:  # where certificates have ended already, nobody answers: then nobody is in the way
        print("without the lease of renewals: %s" % error, flush=True)
    print("renewing, for these end soon: %s" % ", ".join(names), flush=True)
    try:
        renew_now(own)
    except RefusedError as error:
        print(error, flush=True)
        return True
    end = time.monotonic() + HELD / 2
    while time.monotonic() < end:
        try:
            release(Api(read(KUBECONFIG)), own)
        except (OSError, ValueError):
            time.sleep(1)
            continue
        print("renewed, the API answers", flush=True)
        return True
    print("renewed, but the API does not answer", flush=True)
    return True


def renew_now(own):
    """Renew all certificates of this master and let its control plane start with them; raises `RefusedError`."""
    code, said = run("kubeadm", "certs", "renew", "all")
    if code:
        raise RefusedError("kubeadm cannot renew: %s" % said.strip()[-400:])
    revive_kubelet(own, time.time())
    restart()


def kubelet_end():
    """When the certificate ends with which the kubelet of this machine signs in, in seconds; None if it has none."""
    try:
        return end_of(read(KUBELET))
    except MalformedError:
        return None


def revive_kubelet(own, now):
    """Sign a new certificate for the kubelet of this master if its own has ended, and start it with that.

    The cluster cannot do it: its control plane runs in pods of this very kubelet. Raises `RefusedError`.
    """
    end = kubelet_end()
    if end is None or end > now:
        return
    os.makedirs(RUN, mode=0o700, exist_ok=True)
    version = run("kubeadm", "version", "-o", "short")[1].strip()  # else kubeadm would ask the internet for it
    request = RUN + "/kubelet-client.json"
    # An address is asked for and none of this machine's own need be up yet; only certificate and key are taken.
    write(
        request,
        "\n---\n".join(
            json.dumps(dict(apiVersion="kubeadm.k8s.io/v1beta4", **one))
            for one in (
                {"kind": "InitConfiguration", "localAPIEndpoint": {"advertiseAddress": "192.0.2.1"}},
                {"kind": "ClusterConfiguration", "kubernetesVersion": version},
            )
        ),
    )
    who = ("--org", "system:nodes", "--client-name", "system:node:" + own)
    code, said = run("kubeadm", "kubeconfig", "user", "--config", request, *who)
    os.unlink(request)
    if code:
        raise RefusedError("kubeadm signs no certificate for the kubelet: %s" % said.strip()[-400:])
    pair = [base64.b64decode(field(said, name)).decode() for name in ("client-certificate-data", "client-key-data")]
    made = "%s/kubelet-client-%s.pem" % (os.path.dirname(KUBELET), time.strftime("%Y-%m-%d-%H-%M-%S"))
    write(made, "".join(pair))
    link = KUBELET + ".paictl"
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(made, link)
    os.replace(link, KUBELET)
    run("systemctl", "restart", "kubelet")
    print("the kubelet's certificate had ended: it has a new one", flush=True)


def ready():
    """Wait until the API of this master answers; raises `RefusedError`."""
    ask = ("kubectl", "--kubeconfig", KUBECONFIG, "--request-timeout", "3s", "get", "--raw", "/readyz")
    end = time.monotonic() + START
    while run(*ask)[0]:
        if time.monotonic() > end:
            raise RefusedError("the API does not answer again")
        time.sleep(0.5)


def invite():
    """A kubeconfig, as JSON, with which kubelets may ask for certificates for a quarter of an hour."""
    code, said = run("kubeadm", "token", "create", "--ttl", INVITED, "--kubeconfig", KUBECONFIG)
    token = re.search(r"^[a-z0-9]{6}\.[a-z0-9]{16}$", said, re.MULTILINE)
    if code or token is None:
        raise RefusedError("kubeadm makes no token: %s" % said.strip()[-400:])
    text = read(KUBECONFIG)
    cluster = {name: field(text, name) for name in ("server", "certificate-authority-data")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "join",
        "clusters": [{"name": "join", "cluster": cluster}],
        "users": [{"name": "join", "user": {"token": token.group(0)}}],
        "contexts": [{"name": "join", "context": {"cluster": "join", "user": "join"}}],
    }


def rejoin():
    """Let the kubelet of this machine ask for a certificate by the invitation that lies here; raises `RefusedError`."""
    run("systemctl", "reset-failed", "kubelet")
    run("systemctl", "restart", "kubelet")
    end = time.monotonic() + START
    try:
        while (kubelet_end() or 0) <= time.time():
            if time.monotonic() > end:
                raise RefusedError("the kubelet got no certificate: journalctl -u kubelet")
            time.sleep(0.5)
    finally:
        if os.path.exists(BOOTSTRAP):
            os.unlink(BOOTSTRAP)


def write(path, text):
    """Write a file that only root can read, in one step."""
    handle = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def read(path):
    """The text of a file; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def serve(own):
    """Go on for ever: approve every few seconds, look at the certificates every hour."""
    passed, api, text, due = set(), None, "", 0.0
    while True:
        try:
            fresh = read(KUBECONFIG)
            if fresh and os.path.exists("/etc/kubernetes/manifests/kube-apiserver.yaml"):
                if time.monotonic() >= due:
                    due = time.monotonic() + (ROUND if renew(own) else PAUSE * 4)
                    fresh = read(KUBECONFIG)
                if api is None or fresh != text:
                    api, text = Api(fresh), fresh
                approve(api, passed)
        except (OSError, ValueError, KeyError, RefusedError) as error:
            print("later: %s" % error, file=sys.stderr, flush=True)
            api = None
        time.sleep(PAUSE)


VERBS = {
    "serve": serve,
    "end": lambda _: {"kubelet": kubelet_end(), "clock": time.time()},
    "renew": renew_now,
    "ready": lambda _: ready(),
    "invite": lambda _: invite(),
    "rejoin": lambda _: rejoin(),
}


def main(own, verb="serve"):
    """Do what the command line says; what a verb tells goes to stdout as JSON, on a line of its own."""
    try:
        told = VERBS[verb](own)
    except (RefusedError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    if told is not None:
        print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
