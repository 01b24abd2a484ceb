#!/usr/bin/python
# Part of paictl.
"""Write many files in one task, and remove some."""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import chmod, differing_files, left_files, loose_files, read, remove, write

DOCUMENTATION = r"""
module: paictl_files
short_description: Write many files in one task, and remove some
description: [Each file is written in one step, and only where it differs.]
options:
  files: {description: "path, content, mode (octal, as text)", type: list, elements: dict, default: []}
  owned:
    description: Patterns of files of paictl that are removed where they are not among the wanted ones.
    type: list
    elements: str
    default: []
  modes: {description: "Files that let others do too much, by pattern, with their mode", type: dict, default: {}}
  absent: {description: Files and folders that must not be there., type: list, elements: path, default: []}
author: [paictl]
"""
EXAMPLES = r"""
- name: Files
  paictl_files:
    files: "{{ paictl_files }}"
"""
RETURN = r"""
paths:
  description: What was written or removed.
  returned: always
  type: list
  elements: str
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "default": []},
            "owned": {"type": "list", "elements": "str", "default": []},
            "modes": {"type": "dict", "default": {}},
            "absent": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    wanted = differing_files(module.params["files"])
    gone = [path for path in module.params["absent"] if os.path.lexists(path)]
    gone += left_files(module.params["files"], module.params["owned"])
    loose = [path for path, _ in loose_files(module.params["modes"])]
    diff = [
        {
            "before_header": one["path"],
            "after_header": one["path"],
            "before": read(one["path"]),
            "after": one["content"],
        }
        for one in wanted
    ]
    if not module.check_mode:
        try:
            for one in wanted:
                write(one["path"], one["content"], one["mode"])
            for path in gone:
                remove(path)
            chmod(module.params["modes"])
        except OSError as error:
            module.fail_json(msg="%s cannot be changed: %s" % (error.filename, error.strerror))
    paths = [one["path"] for one in wanted] + gone + loose
    module.exit_json(changed=bool(paths), paths=paths, diff=diff)


if __name__ == "__main__":
    main()
