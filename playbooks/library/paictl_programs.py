#!/usr/bin/python
# Part of paictl.
"""Put programs in their places, from one archive that was pushed."""

import json
import os
import shutil
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import INSTALLED, installed, is_installed, sha256_of, stamp, write

DOCUMENTATION = r"""
module: paictl_programs
short_description: Put programs in their places
description: [Verifies each artifact, puts or unpacks it, and notes from which file it came.]
options:
  pack: {description: Archive on the host of the artifacts that were pushed., type: path, required: true}
  programs: {description: "name, kind, file, sha256, to (a path or folder)", type: list, elements: dict, required: true}
author: [paictl]
"""
EXAMPLES = r"""
- name: Programs
  paictl_programs:
    pack: /var/lib/paictl-pack.tar
    programs: "{{ paictl_programs }}"
"""
RETURN = r"""
programs:
  description: Names of those that were put in place.
  returned: always
  type: list
  elements: str
"""


class WrongError(Exception):
    """An artifact that cannot be used."""


def place(source, target):
    """Put a program in its place in one step: it may be running."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    new = target + ".paictl-new"
    with open(new, "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    os.chmod(new, 0o755)
    os.replace(new, target)
    return [target]


def unpack(source, program):
    """Unpack the files of an archive, each in one step; their paths. Nothing may lead out of the folder."""
    found = []
    with tarfile.open(fileobj=source) as archive:
        for entry in archive:
            name = os.path.normpath(entry.name)
            if not entry.isfile():
                continue
            if name.startswith(("/", "..")):
                raise WrongError("%s holds %s, which leads out of the folder" % (program["file"], entry.name))
            found += place(archive.extractfile(entry), os.path.join(program["to"], name))
    return found


def install(program, pack):
    """Put one program in place; what to remember of it."""
    try:
        source = pack.extractfile(program["file"])
    except KeyError:
        raise WrongError("%s was not pushed: %s is not in the pack" % (program["name"], program["file"])) from None
    found = sha256_of(source)
    if found != program["sha256"]:
        raise WrongError(
            "%s is another file: SHA-256 %s, wanted %s" % (program["file"], found[:12], program["sha256"][:12])
        )
    source.seek(0)
    files = unpack(source, program) if program["kind"] == "archive" else place(source, program["to"])
    return {"sha256": program["sha256"], "files": {path: stamp(path) for path in files}}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "pack": {"type": "path", "required": True},
            "programs": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    known = installed()
    wanted = [one for one in module.params["programs"] if not is_installed(one, known)]
    if wanted and not module.check_mode:
        try:
            with tarfile.open(module.params["pack"]) as pack:
                for program in wanted:
                    known[program["name"]] = install(program, pack)
                    write(INSTALLED, json.dumps(known, indent=1, sort_keys=True), "0644")
        except (WrongError, OSError, tarfile.TarError) as error:
            module.fail_json(msg=str(error))
    names = [one["name"] for one in wanted]
    module.exit_json(changed=bool(wanted), programs=names, diff={"before": "", "after": "\n".join(names)})


if __name__ == "__main__":
    main()
