# Part of paictl: etcd of a master saved and brought back. Sent over stdin, Python 3.8 and newer, nothing else; as root.
"""`python3 - VERB ARGUMENTS` with the arguments as JSON; tells its result as JSON, or why not on stderr with code 1.

etcd's own tools do the work. They are taken from etcd's image, which every master has, by mounting it: so they are
of the version that runs, nothing has to be installed, and they work while etcd does not.

Restoring goes step by step (`begin`, `prepare`, `stop`, `swap`, `start`, `finish`), each on all masters before the
next. Every step may be done again: where a master stands is known from what is on its disk. Nothing is deleted before
there is something to put in its place: the old data lie in `paictl-before` until the next restore begins.
"""

import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KUBERNETES = "/etc/kubernetes"
PKI = KUBERNETES + "/pki"
PARKED = KUBERNETES + "/paictl-parked"
NOTES = "/var/lib/paictl"
APPLIED = ("network", "storage-class", "node-dns", "secrets-written")
"""Of the notes, those that say what is in etcd, each in a word."""
SETTINGS = ("kube_proxy", "jobs_on_masters", "offline", "pod_security")
"""Of the sections in `settings.json`, those that are in etcd; the others are in files of this machine."""
UNKNOWN = "restored"
"""In such a note: what etcd has is older than it said."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
IMAGE = "/run/paictl/etcd-image"
BUMP = 1000000000
"""Added to the revision, so that nobody who watches takes what is older for newer (etcd's own advice)."""
DEADLINE = 180.0
POLL = 0.2
GRACE = 3
"""Seconds that a program has to end."""


class RefusedError(Exception):
    """Why it does not work, in a line."""


def run(*command, **environment):
    """What a command prints; raises `RefusedError` with its last words."""
    env = dict(os.environ, PATH=PATH, LC_ALL="C.UTF-8", **environment)
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=env,
            universal_newlines=True,
            check=False,
        )
    except FileNotFoundError:
        raise RefusedError("there is no program " + command[0]) from None
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it says nothing"]
        raise RefusedError("%s: %s" % (os.path.basename(command[0]), words[-1][:400]))
    return done.stdout


def manifest(name):
    """Where the manifest of a program of the control plane is: in use, or parked."""
    paths = ["%s/%s.yaml" % (folder, name) for folder in (KUBERNETES + "/manifests", PARKED)]
    return next((path for path in paths if os.path.exists(path)), None)


def etcd():
    """What etcd's manifest says: image, data folder, name, address for its peers, address for clients."""
    path = manifest("etcd")
    if path is None:
        raise RefusedError("runs no etcd of kubeadm: %s/manifests/etcd.yaml is not there" % KUBERNETES)
    with open(path) as file:
        text = file.read()
    words = dict(re.findall(r"^\s*- --([a-z-]+)=(\S+)$", text, re.M))
    try:
        image = re.search(r"^\s*image: (\S+)$", text, re.M).group(1)
        return {
            "image": image,
            "data": words["data-dir"],
            "name": words["name"],
            "peer": words["initial-advertise-peer-urls"],
            "client": words["listen-client-urls"].split(",")[0],
        }
    except (AttributeError, KeyError) as error:
        raise RefusedError("%s is not as kubeadm writes it: %s" % (path, error)) from None


class Tools:
    """etcd's tools from its image, for as long as the block lasts."""

    def __init__(self, image):
        self.image = image

    def __enter__(self):
        self._away()
        os.makedirs(IMAGE, mode=0o700, exist_ok=True)
        run("ctr", "-n", "k8s.io", "images", "mount", self.image, IMAGE)
        return self

    def __exit__(self, *_):
        self._away()

    def _away(self):
        """Unmount it, also where a run that was killed has left it."""
        if os.path.ismount(IMAGE):
            run("ctr", "-n", "k8s.io", "images", "unmount", "--rm", IMAGE)

    def __call__(self, name, *words, **environment):
        """Run one of them."""
        return run(IMAGE + "/usr/local/bin/" + name, *words, **environment)


def certificates():
    """How a client of etcd on this machine shows who it is, as etcdctl's environment; paths, nothing secret."""
    folder = PKI + "/etcd/"
    names = {"ETCDCTL_CACERT": "ca.crt", "ETCDCTL_CERT": "server.crt", "ETCDCTL_KEY": "server.key"}
    return {name: folder + file for name, file in names.items()}


def sha256(path):
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def fresh(folder):
    """An empty folder that nobody else can look into."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    return folder


def look(_):
    """What this master is: versions, authority, and how far a restore has come that was begun here."""
    about = etcd()
    status = os.statvfs(about["data"] if os.path.isdir(about["data"]) else "/var/lib")
    work = read_state(about["data"])
    return {
        "etcd": about,
        "kubernetes": run("kubeadm", "version", "-o", "short").strip(),
        "authority": sha256(PKI + "/ca.crt"),
        "unfinished": work.get("id", ""),
        "begun": work.get("begun", ""),
        "swapped": bool(work) and is_swapped(about["data"]),
        "free": status.f_bavail * status.f_frsize,
    }


def save(_):
    """A snapshot, and the authorities and certificates of this master, in a folder beside etcd's data; else nothing."""
    about = etcd()
    folder = fresh(about["data"] + "/paictl-backup")
    try:
        return saved(about, folder)
    except BaseException:  # another master is asked then, and nobody comes back for this
        shutil.rmtree(folder, ignore_errors=True)
        raise


def saved(about, folder):
    """What `save` tells when all is in the folder."""
    snapshot, pki = folder + "/snapshot.db", folder + "/pki.tar"
    with Tools(about["image"]) as tool:
        who = dict(certificates(), ETCDCTL_ENDPOINTS=about["client"])
        tool("etcdctl", "endpoint", "health", **who)  # asks for a majority: one that was cut off would save what is old
        tool("etcdctl", "snapshot", "save", snapshot, **who)
        status = json.loads(tool("etcdutl", "snapshot", "status", snapshot, "-w", "json"))
    with tarfile.open(pki, "w") as packed:
        packed.add(PKI, "pki")
    for path in (snapshot, pki):
        os.chmod(path, 0o600)
    return dict(look({}), files=[snapshot, pki], status=status)


def tidy(_):
    """Take away what `save` has made."""
    shutil.rmtree(etcd()["data"] + "/paictl-backup", ignore_errors=True)
    return {}


def work_folder(data):
    """Where a restore is at work: on the disk of etcd's data, so that what is ready is there by a rename."""
    return data + "/paictl-restore"


def read_state(data):
    """What a restore has noted: its id; empty where none is under way."""
    try:
        with open(work_folder(data) + "/state.json") as file:
            found = json.load(file)
            return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def begin(wish):
    """A folder for the snapshot; what an earlier restore from another archive had ready goes."""
    data = etcd()["data"]
    found = read_state(data)
    if found.get("id") != wish["id"]:
        if not found:  # the last one came to its end: what it has kept is not needed any more
            shutil.rmtree(data + "/paictl-before", ignore_errors=True)
        folder = fresh(work_folder(data))
        write(folder + "/state.json", json.dumps({"id": wish["id"], "begun": wish["begun"]}))
    return {"folder": work_folder(data)}


def write(path, text, mode=0o600):
    """Write a file in one step."""
    with open(path + ".part", "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def is_swapped(data):
    """Whether etcd's data are those of the snapshot already: what was ready has gone into its place."""
    work = work_folder(data)
    return os.path.exists(work + "/ready") and not os.path.isdir(work + "/data/member")


def prepare(wish):
    """Make etcd's data from the snapshot, beside those that are in use; nothing that runs is changed."""
    about = etcd()
    work = work_folder(about["data"])
    if read_state(about["data"]).get("id") != wish["id"]:
        raise RefusedError("another restore was begun meanwhile")
    if os.path.exists(work + "/ready"):
        return {}
    snapshot = work + "/snapshot.db"
    if sha256(snapshot) != wish["sha256"]:
        raise RefusedError("%s is not the snapshot of the archive" % snapshot)
    shutil.rmtree(work + "/data", ignore_errors=True)
    with Tools(about["image"]) as tool:
        tool(
            "etcdutl",
            "snapshot",
            "restore",
            snapshot,
            "--data-dir",
            work + "/data",
            "--name",
            about["name"],
            "--initial-cluster",
            wish["members"],
            "--initial-cluster-token",
            "paictl-" + wish["id"][:16],
            "--initial-advertise-peer-urls",
            about["peer"],
            "--bump-revision",
            str(BUMP),
            "--mark-compacted",
        )
    write(work + "/ready", "")
    return {}


def stop(_):
    """Stop the control plane, and wait until it has stopped."""
    os.makedirs(PARKED, mode=0o700, exist_ok=True)
    for name in PROGRAMS:
        path = "%s/manifests/%s.yaml" % (KUBERNETES, name)
        if os.path.exists(path):
            os.replace(path, "%s/%s.yaml" % (PARKED, name))
    end = time.monotonic() + DEADLINE
    while True:
        running = {name: run("crictl", "ps", "-q", "--name", "^%s$" % name).split() for name in PROGRAMS}
        containers = [one for ids in running.values() for one in ids]
        if not containers:
            return {}
        if time.monotonic() > end:
            names = ", ".join(name for name, ids in running.items() if ids)
            raise RefusedError("still running: %s; journalctl -u kubelet may say why" % names)
        # kubelet, which does it too, gives the API server half a minute for connections that nobody ends.
        try:
            run("crictl", "stop", "--timeout", str(GRACE), *containers)
        except RefusedError:
            pass  # one has gone meanwhile; what is left is looked at again
        time.sleep(POLL)


def swap(_):
    """Put the data of the snapshot in the place of those that were in use, which are kept."""
    data = etcd()["data"]
    if is_swapped(data):
        return {}
    ready, live, before = work_folder(data) + "/data/member", data + "/member", data + "/paictl-before/member"
    if not os.path.isdir(ready):
        raise RefusedError("nothing was prepared")
    if os.path.isdir(live):
        if os.path.isdir(before):  # of an interrupted restore: the first data are kept, what it had put there goes
            shutil.rmtree(live)
        else:
            os.makedirs(os.path.dirname(before), mode=0o700, exist_ok=True)
            os.replace(live, before)
    doubt_notes()
    os.replace(ready, live)
    return {}


def doubt_notes():
    """Take nothing for applied that was noted before: the next plan compares it with what is wanted.

    A cache that is leaving stays so: that is about pods, which keep running.
    """
    for name in APPLIED:
        path = NOTES + "/" + name
        noted = read(path).split()
        if noted and noted[0] not in (UNKNOWN, "leaving"):
            write(path, UNKNOWN + "\n", 0o644)
    try:
        noted = json.loads(read(NOTES + "/settings.json") or "{}")
    except ValueError:
        noted = {}
    if noted:
        kept = {name: value for name, value in noted.items() if name not in SETTINGS}
        write(NOTES + "/settings.json", json.dumps(dict(kept, restored=True)))


def read(path):
    """The text of a file; empty where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def start(_):
    """Start the control plane, and wait until the API of this master answers (etcd needs a majority for that)."""
    for name in PROGRAMS:
        path = "%s/%s.yaml" % (PARKED, name)
        if os.path.exists(path):
            os.replace(path, "%s/manifests/%s.yaml" % (KUBERNETES, name))
    if os.path.isdir(PARKED) and not os.listdir(PARKED):
        os.rmdir(PARKED)
    end, said = time.monotonic() + DEADLINE, "no answer"
    while time.monotonic() < end:
        said = readiness()
        if not said:
            return {}
        time.sleep(POLL)
    raise RefusedError("the API does not answer again (%s); crictl ps -a and journalctl -u kubelet say why" % said)


def readiness():
    """Why the API of this master is not ready; empty if it is."""
    with open(manifest("kube-apiserver") or os.devnull) as file:
        words = dict(re.findall(r"^\s*- --([a-z-]+)=(\S+)$", file.read(), re.M))
    place = "https://%s:%s/readyz" % (words.get("advertise-address", "127.0.0.1"), words.get("secure-port", "6443"))
    trusted = ssl.create_default_context(cafile=PKI + "/ca.crt")
    try:
        with urllib.request.urlopen(place, timeout=3, context=trusted) as answer:
            return "" if answer.status == 200 else str(answer.status)
    except urllib.error.HTTPError as error:
        return (
            "" if error.code in (401, 403) else "%d of /readyz" % error.code
        )  # it answers; who may ask is its own affair
    except OSError as error:
        return str(error)


def finish(_):
    """The restore is done: the snapshot and all notes of it go."""
    shutil.rmtree(work_folder(etcd()["data"]), ignore_errors=True)
    return {}


VERBS = {verb.__name__: verb for verb in (look, save, tidy, begin, prepare, stop, swap, start, finish)}


def main():
    """Do what the command line says."""
    os.umask(0o077)
    try:
        json.dump(VERBS[sys.argv[1]](json.loads(sys.argv[2])), sys.stdout)
    except (RefusedError, OSError, tarfile.TarError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
