# Part of paictl. Runs on the dev box, in Ansible's own Python.
"""Push a file to a host in pieces over the connection that is open.

What has arrived when a link breaks is not sent again: it stays beside the target under the file's key, and each piece
is written at its own place, so that a command that a dead link left running there can do no harm. How far it is can be
read meanwhile in the folder `progress`, a file for each host: "SENT SIZE" in bytes. A file that is there as a whole is
not sent at all. What arrived is verified where it is used, artifact by artifact. On the host only sh and coreutils are
needed, and gzip to have pieces compressed over a slow link.
"""

import gzip
import hashlib
import os
import shlex
import time

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

PIECE, MOST = 1 << 20, 64 << 20
"""Bytes sent at a time, at first and at most: as each piece takes a moment, a fast link gets larger ones."""
_LEVEL = 6
MOMENT = 5.0
"""Seconds that a piece may take so that the next one is larger: by a long link, each is a second of waiting."""
SLOW = 4 << 20
"""Bytes a second below which pieces are compressed: programs and images become a third, faster than such a link."""

_HAS = 'if [ "$(stat -c %s -- "$1" 2> /dev/null)" = "$2" ]; then sha256sum < "$1"; fi'
_BEGIN = """
umask 077
for old in "$1".*.part; do [ "$old" = "$2" ] || rm -f -- "$old"; done
[ -e "$2" ] || : > "$2" || exit 1
command -v gzip > /dev/null && echo gzip
stat -c %s -- "$2"
"""
_PIECE = 'dd of="$1" bs=65536 iflag=fullblock oflag=seek_bytes conv=notrunc seek="$2" status=none'
_PACKED = 'gzip -dc | %s && [ "$(stat -c %%s -- "$1")" -ge "$3" ]' % _PIECE
_END = '[ "$(stat -c %s -- "$1")" = "$3" ] && chmod 600 -- "$1" && mv -fT -- "$1" "$2"'


class ActionModule(ActionBase):
    """Arguments: `src` here, `dest` there, `key` of what is in the file, `progress` (a folder here)."""

    _VALID_ARGS = frozenset(("src", "dest", "key", "progress"))

    def run(self, tmp=None, task_vars=None):
        """Push what has not arrived yet."""
        result = super().run(tmp, task_vars)
        source, target, key = (self._task.args[name] for name in ("src", "dest", "key"))
        size, part = os.path.getsize(source), "%s.%s.part" % (target, key)
        if self._task.check_mode:
            return dict(result, changed=True)
        if self._there(_HAS, target, str(size)).split()[:1] == [_sha256(source)]:
            return dict(result, changed=False, resumed=size)
        said = self._there(_BEGIN, target, part).split()
        sent = int(said[-1]) if said and said[-1].isdigit() else 0
        if sent > size:
            self._there('rm -f -- "$1"', part)
            sent = 0
        result.update(changed=True, resumed=sent)
        self._tell(task_vars, sent, size)
        with open(source, "rb") as file:
            file.seek(sent)
            length, packs = PIECE, False
            while piece := file.read(length):
                began = time.monotonic()
                if packs:
                    self._there(_PACKED, part, str(sent), str(sent + len(piece)), data=gzip.compress(piece, _LEVEL))
                else:
                    self._there(_PIECE, part, str(sent), data=piece)
                took = time.monotonic() - began
                sent += len(piece)
                self._tell(task_vars, sent, size)
                packs = packs or ("gzip" in said and took * SLOW > len(piece))
                if took < MOMENT:
                    length = min(2 * length, MOST)
        self._there(_END, part, target, str(size))
        return result

    def _there(self, script, *arguments, data=None):
        """What a script says on the host."""
        words = ["sh", "-c", shlex.quote(script), "paictl", *map(shlex.quote, arguments)]
        done = self._low_level_execute_command(" ".join(words), sudoable=True, in_data=data)
        if done["rc"]:
            lines = (done["stderr"] or done["stdout"]).strip().splitlines()
            raise AnsibleActionFail(lines[-1] if lines else "exit code %s" % done["rc"])
        return done["stdout"]

    def _tell(self, task_vars, sent, size):
        """Note how far it is, in one step: somebody reads it at any time."""
        folder, host = self._task.args["progress"], task_vars["inventory_hostname"]
        new = os.path.join(folder, "." + host)
        with open(new, "w", encoding="utf-8") as file:
            file.write("%d %d" % (sent, size))
        os.replace(new, os.path.join(folder, host))


def _sha256(path):
    """Of a file here, which does not fit into memory."""
    known = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            known.update(piece)
    return known.hexdigest()
