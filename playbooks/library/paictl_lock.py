#!/usr/bin/python
# Part of paictl.
"""The lock of a deployment on a master: who changes the cluster now, from where, and since when."""

import fcntl
import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import LOCK, STATE, read, write

DOCUMENTATION = r"""
module: paictl_lock
short_description: Take and release the lock of a deployment
description: [A lock of somebody else is reported, and never replaced but for those that are named.]
options:
  state:
    description: Whether to hold it; known only tells who does, as the fact paictl_lock.
    type: str
    choices: [present, absent, known]
    default: present
  holder: {description: "Who holds it: id, who, command, since", type: dict, default: {}}
  replace: {description: Identities of locks that are known to be left over., type: list, elements: str, default: []}
author: [paictl]
"""
EXAMPLES = r"""
- name: Lock
  paictl_lock:
    holder: {id: 0a1b, who: alice@box, command: deploy apply, since: "2026-09-01T12:00:00Z"}
"""
RETURN = r"""
"""


def present():
    """The lock as it is; empty where there is none."""
    try:
        found = json.loads(read(LOCK))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "known"], "default": "present"},
            "holder": {"type": "dict", "default": {}},
            "replace": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    holder, state = module.params["holder"], module.params["state"]
    if state == "known":
        module.exit_json(changed=False, ansible_facts={"paictl_lock": read(LOCK)})
    if module.check_mode:
        module.exit_json(changed=True)
    if state == "absent" and not os.path.isdir(STATE):  # the machine was reset meanwhile
        module.exit_json(changed=False)
    os.makedirs(STATE, exist_ok=True)
    with open(LOCK + ".guard", "w", encoding="ascii") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # two may come at the same instant
        now = present()
        if state == "absent":
            if now.get("id") == holder["id"]:
                os.unlink(LOCK)
            module.exit_json(changed=True)
        if now and now.get("id") not in (holder["id"], *module.params["replace"]):
            said = "%s has been running %s on this cluster since %s"
            hint = "wait until it ends; if it was abandoned, repeat the command with --break-lock"
            module.fail_json(msg=said % (now.get("who"), now.get("command"), now.get("since")), hint=hint)
        write(LOCK, json.dumps(holder, indent=1) + "\n", "0644")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
