#!/usr/bin/python
# Part of paictl.
"""Release images that were pinned for an older version, so that kubelet may delete them once a disk gets full."""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import run, stale_pins

DOCUMENTATION = r"""
module: paictl_pins
short_description: Release images that were pinned for an older version
description: [Only images of those repositories that are given, with other tags; nothing is deleted here.]
options:
  images: {description: "archive, sha256, images (reference, id)", type: list, elements: dict, required: true}
author: [paictl]
"""
EXAMPLES = r"""
- name: Old images
  paictl_pins:
    images: "{{ paictl_images }}"
"""
RETURN = r"""
released:
  description: Images that were released.
  returned: always
  type: list
  elements: str
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"images": {"type": "list", "elements": "dict", "required": True}}, supports_check_mode=True
    )
    stale = stale_pins(module.params["images"])
    if not module.check_mode:
        for reference in stale:
            code, _, error = run(["ctr", "-n", "k8s.io", "images", "label", reference, "io.cri-containerd.pinned="])
            if code:
                module.fail_json(msg="%s cannot be released: %s" % (reference, error.strip()[-300:]))
    module.exit_json(changed=bool(stale), released=stale, diff={"before": "\n".join(stale), "after": ""})


if __name__ == "__main__":
    main()
