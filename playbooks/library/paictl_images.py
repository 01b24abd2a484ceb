#!/usr/bin/python
# Part of paictl.
"""Import archives of container images that were pushed."""

import shutil
import subprocess
import tarfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import images, missing_images, run, sha256_of

DOCUMENTATION = r"""
module: paictl_images
short_description: Import archives of container images
description: [An image counts as present where containerd has it under its name with the same configuration.]
options:
  pack: {description: Archive on the host of the artifacts that were pushed., type: path, required: true}
  images: {description: "archive, sha256, images (reference, id)", type: list, elements: dict, required: true}
author: [paictl]
"""
EXAMPLES = r"""
- name: Images
  paictl_images:
    pack: /var/lib/paictl-pack.tar
    images: "{{ paictl_images }}"
"""
RETURN = r"""
archives:
  description: Archives that were imported.
  returned: always
  type: list
  elements: str
"""


def settled(seconds):
    """The images, once containerd answers; None if it does not."""
    end = time.monotonic() + seconds
    while True:
        found = images()
        if found is not None or time.monotonic() > end:
            return found
        time.sleep(0.2)


def bring_in(module, pack, archive):
    """Import one archive; ends the module if it cannot be used."""
    try:
        source = pack.extractfile(archive["archive"])
    except KeyError:
        module.fail_json(msg="%s was not pushed: it is not in the pack" % archive["archive"])
    if sha256_of(source) != archive["sha256"]:
        module.fail_json(msg="%s is another file than it was" % archive["archive"])
    source.seek(0)
    command = ["/usr/local/bin/ctr", "-n", "k8s.io", "images", "import", "--local", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        with process.stdin:
            shutil.copyfileobj(source, process.stdin, 1 << 20)
    except BrokenPipeError:
        pass  # it says why
    said = process.stdout.read().decode(errors="replace")
    if process.wait():
        module.fail_json(msg="%s cannot be imported: %s" % (archive["archive"], said.strip()[-300:]))
    for image in archive["images"]:  # or kubelet would delete what no registry can give back, once a disk gets full
        run(["ctr", "-n", "k8s.io", "images", "label", image["reference"], "io.cri-containerd.pinned=pinned"])


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "pack": {"type": "path", "required": True},
            "images": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    have = images() if module.check_mode else settled(60)
    if have is None and not module.check_mode:
        module.fail_json(msg="containerd does not answer", hint="journalctl -u containerd says why")
    wanted = missing_images(module.params["images"], have)
    if wanted and not module.check_mode:
        try:
            with tarfile.open(module.params["pack"]) as pack:
                for archive in wanted:
                    bring_in(module, pack, archive)
        except (OSError, tarfile.TarError) as error:
            module.fail_json(msg="what was pushed cannot be used: %s" % error)
    names = [one["archive"] for one in wanted]
    module.exit_json(changed=bool(wanted), archives=names, diff={"before": "", "after": "\n".join(names)})


if __name__ == "__main__":
    main()
