# Part of paictl: kubeadm as a unit of its own. Runs on hosts with Python 3.8 or newer and nothing else.
"""Running kubeadm so that it survives its caller: a link that is cut does not end it, and who comes again waits."""

import re
import time

from ansible.module_utils.paictl_host import PATH, read, run

UNIT = "paictl-kubeadm"
LOG = "/var/log/paictl-kubeadm.log"
LOOKUP = re.compile(r"lookup (\S+?)(?: on (\S+?):53)?: ")
"""How programs in Go say that a name was not resolved: the name, and the name server that they asked."""


def active():
    """Whether kubeadm is at work."""
    return run(["systemctl", "is-active", UNIT])[1].strip() in ("active", "activating", "deactivating")


def wait(seconds):
    """Wait until kubeadm has ended, however that went; whether it has."""
    end = time.monotonic() + seconds
    while active():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def start(command, seconds):
    """Run a command as the unit, its output in the log; what went wrong if it did not come to its end in time."""
    run(["systemctl", "reset-failed", UNIT])
    shell = "{ %s; } >%s 2>&1" % (command, LOG)
    code, _, error = run(
        [
            "systemd-run",
            "--quiet",
            "--collect",
            "--unit=" + UNIT,
            "--property=Type=exec",
            "--setenv=PATH=" + PATH,
            "sh",
            "-c",
            shell,
        ],
    )
    if code:
        return error.strip() or "systemd-run did not work"
    return "" if wait(seconds) else "is at work for more than %d s" % seconds


def last_words():
    """The lines of the log that say why it failed; that a name is not resolved, in a sentence of its own."""
    lines = [line.strip() for line in read(LOG).splitlines() if line.strip()]
    telling = [line for line in lines if "[ERROR" in line or line.startswith("error")]
    return unresolved(lines) or " | ".join((telling or lines)[-4:])[-600:]


def unresolved(lines):
    """What to say where the last error is that name servers did not answer; empty where it is another."""
    failed = [line for line in lines if "[ERROR" in line or "lookup " in line]
    found = LOOKUP.search(failed[-1]) if failed else None
    if found is None:
        return ""
    name, server = found.groups()
    return "cannot resolve %s%s: images come from there; check it here: getent hosts %s; cat /etc/resolv.conf" % (
        name,
        " by name server " + server if server else "",
        name,
    )
