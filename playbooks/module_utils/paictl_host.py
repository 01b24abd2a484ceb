# Part of paictl: what its modules share. Runs on hosts with Python 3.8 or newer and nothing else.
"""Reading and changing a host in ways that say truly whether something changed."""

import glob
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import tarfile
import tempfile

STATE = "/var/lib/paictl"
INSTALLED = STATE + "/installed.json"
BEGUN = STATE + "/kubeadm-begun"
DONE = STATE + "/kubeadm-done"
MARK = "# Written by paictl deploy."
LOCK = STATE + "/lock.json"
NOTE = STATE + "/settings.json"
CERTIFICATES = (
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/etc/kubernetes/pki/*.crt",
    "/etc/kubernetes/pki/etcd/*.crt",
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(command, text=None, seconds=60, environment=None):
    """Exit code and output of a command; 127 where it is not there, 124 where it takes too long."""
    env = dict(os.environ, PATH=PATH, LC_ALL="C.UTF-8", **(environment or {}))
    try:
        done = subprocess.run(
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=seconds,
            env=env,
            universal_newlines=True,
            check=False,
        )
    except FileNotFoundError:
        return 127, "", "there is no program " + command[0]
    except subprocess.TimeoutExpired:
        return 124, "", "took longer than %d s" % seconds
    return done.returncode, done.stdout, done.stderr


def read(path, default=""):
    """The text of a file; `default` where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return default


def write(path, content, mode):
    """Put a text in a file in one step; nobody ever sees half of it, or another mode."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".paictl-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, int(mode, 8))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def differing_files(files):
    """Those of [{path, content, mode}] that are not on the disk as they should be."""
    found = []
    for one in files:
        try:
            mode = os.stat(one["path"]).st_mode & 0o7777
        except OSError:
            found.append(one)
            continue
        if mode != int(one["mode"], 8) or read(one["path"]) != one["content"]:
            found.append(one)
    return found


def ended_certificates(now, patterns=CERTIFICATES):
    """Files whose certificates have ended; authorities, which nothing here renews, are left out.

    Python has no public function that reads a certificate from a file. Where this one is missing, none has ended.
    """
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    return [path for path in paths if not path.endswith("ca.crt") and certificate_end(path, now) < now]


def certificate_end(path, unknown):
    """When the certificate of a file ends, in seconds; `unknown` where that cannot be told."""
    try:
        return ssl.cert_time_to_seconds(ssl._ssl._test_decode_cert(path)["notAfter"])
    except (AttributeError, OSError, KeyError, ValueError):
        return unknown


def loose_files(modes):
    """Those of {pattern: mode} that are there and let others do more; [path, mode] each."""
    found = []
    for pattern, mode in sorted(modes.items()):
        for path in sorted(glob.glob(pattern)):
            if os.stat(path).st_mode & 0o7777 & ~int(mode, 8):
                found.append([path, mode])  # noqa: PERF401 - two loops in one line are hard to read
    return found


def chmod(modes):
    """Take from files of {pattern: mode} what they let others do too much; their paths."""
    loose = loose_files(modes)
    for path, mode in loose:
        os.chmod(path, os.stat(path).st_mode & int(mode, 8))
    return [path for path, _ in loose]


def left_files(files, owned):
    """Files of patterns that paictl has written (by their first line) and that are not among the wanted ones."""
    wanted = {one["path"] for one in files}
    there = {path for pattern in owned for path in glob.glob(pattern)} - wanted
    return sorted(path for path in there if read(path).startswith(MARK))


def installed():
    """What was installed from which file: {program: {sha256, files: {path: [size, mtime_ns]}}}."""
    try:
        return json.loads(read(INSTALLED, "{}"))
    except ValueError:
        return {}


def stamp(path):
    """What tells a file that was not touched: size and instant."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def is_installed(program, known):
    """Whether a program is here as its artifact has it."""
    have = known.get(program["name"]) or {}
    if have.get("sha256") != program["sha256"] or not have.get("files"):
        return False
    try:
        return all(stamp(path) == mark for path, mark in have["files"].items())
    except OSError:
        return False


def sha256_of(file):
    """The SHA-256 of an open file as 64 digits."""
    sum_ = hashlib.sha256()
    for block in iter(lambda: file.read(1 << 20), b""):
        sum_.update(block)
    return sum_.hexdigest()


def packed_files(path, files):
    """Those of {name: SHA-256} that are in an archive as a whole and unharmed."""
    there = set()
    try:
        with tarfile.open(path, "r:") as pack:  # paictl compresses none, and what looks compressed is not read
            for entry in pack:
                if entry.name in files and sha256_of(pack.extractfile(entry)) == files[entry.name]:
                    there.add(entry.name)
    except (OSError, tarfile.TarError):
        pass  # there is none, or it ends early: what was read counts
    return sorted(there)


def images():
    """Images that containerd has: reference → digest of its configuration; None while it does not answer."""
    found = listed_images()
    return None if found is None else {tag: one["id"] for one in found for tag in one.get("repoTags") or []}


def listed_images():
    """Images as containerd tells them (repoTags, id, pinned); None while it does not answer."""
    if not os.path.exists("/run/containerd/containerd.sock"):
        return None
    code, out, _ = run(["crictl", "--timeout", "10s", "images", "-o", "json"])
    return None if code else json.loads(out).get("images", [])


def stale_pins(archives):
    """Images that are pinned, of a repository of [{archive, images: [{reference, id}]}], with another tag."""
    wanted = {image["reference"] for one in archives for image in one["images"]}
    ours = {reference.rpartition(":")[0] for reference in wanted}
    tags = [tag for one in listed_images() or () if one.get("pinned") for tag in one.get("repoTags") or []]
    return sorted(tag for tag in tags if tag not in wanted and tag.rpartition(":")[0] in ours)


def missing_images(archives, have):
    """The archives of [{archive, images: [{reference, id}]}] that hold an image that is not here."""
    if have is None:
        return list(archives)
    return [one for one in archives if any(have.get(image["reference"]) != image["id"] for image in one["images"])]


def wrong_sysctls(wanted):
    """{name: value} of settings whose value is another one; those that the kernel does not have are left out."""
    found = {}
    for name, value in wanted.items():
        path = "/proc/sys/" + name.replace(".", "/")
        if os.path.exists(path) and read(path).split() != str(value).split():
            found[name] = value
    return found


def missing_modules(wanted):
    """Modules that are neither loaded nor built into the kernel."""
    return [name for name in wanted if not os.path.isdir("/sys/module/" + name) and not _builtin(name)]


def _builtin(name):
    text = read("/lib/modules/%s/modules.builtin" % os.uname().release)
    return any(os.path.basename(line)[:-3].replace("-", "_") == name for line in text.split())


def active_swap():
    """Devices and files that are swapped to now."""
    return [line.split()[0] for line in read("/proc/swaps").splitlines()[1:] if line.split()]


def swap_lines(fstab):
    """Lines of /etc/fstab that switch swap on at the next start."""
    fields = [(line, line.split()) for line in fstab.splitlines()]
    return [line for line, words in fields if len(words) > 2 and not words[0].startswith("#") and words[2] == "swap"]


def remove(path):
    """Remove a file or folder, whatever it is."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
