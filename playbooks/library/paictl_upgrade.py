#!/usr/bin/python
# Part of paictl.
"""Let kubeadm upgrade what it has made on this machine, in a way that survives its caller."""

import os
import shlex

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import BEGUN, chmod, read
from ansible.module_utils.paictl_unit import LOG, last_words, start, wait

DOCUMENTATION = r"""
module: paictl_upgrade
short_description: Upgrade a machine by kubeadm
description: [Waits for a kubeadm that is at work; another cluster's machine is never touched.]
options:
  cluster: {description: What tells this cluster from another one., type: str, required: true}
  words: {description: What follows kubeadm upgrade., type: list, elements: str, required: true}
  modes: {description: "Files that kubeadm writes, and the mode (octal, as text) they get", type: dict, default: {}}
  seconds: {description: How long it may take., type: int, default: 900}
author: [paictl]
"""
EXAMPLES = r"""
- name: Upgrade
  paictl_upgrade:
    cluster: prod
    words: [apply, v1.37.1, --yes]
"""
RETURN = r"""
"""
NOTE = "/run/paictl/upgraded"


def work(module):
    """Do it; ends the module if it does not work."""
    words, seconds = module.params["words"], module.params["seconds"]
    if not wait(seconds):
        module.fail_json(msg="kubeadm, which was begun before, is still at work", hint="see " + LOG)
    os.makedirs(os.path.dirname(NOTE), mode=0o700, exist_ok=True)
    if os.path.exists(NOTE):
        os.unlink(NOTE)
    command = "kubeadm upgrade %s && touch %s" % (" ".join(shlex.quote(word) for word in words), NOTE)
    problem = start(command, seconds)
    if problem or not os.path.exists(NOTE):
        hint = "%s on this machine has all of it; the same command goes on when it is mended" % LOG
        module.fail_json(msg="kubeadm upgrade %s: %s" % (words[0], problem or last_words()), hint=hint)
    os.unlink(NOTE)
    chmod(module.params["modes"])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "words": {"type": "list", "elements": "str", "required": True},
            "modes": {"type": "dict", "default": {}},
            "seconds": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    begun = read(BEGUN).strip()
    if begun != module.params["cluster"]:
        module.fail_json(msg="this machine belongs to %s" % (begun or "no cluster of paictl"))
    if not module.check_mode:
        work(module)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
