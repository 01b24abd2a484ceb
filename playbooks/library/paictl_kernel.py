#!/usr/bin/python
# Part of paictl.
"""Kernel modules, kernel settings and swap, as Kubernetes wants them."""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import (
    active_swap,
    missing_modules,
    read,
    run,
    swap_lines,
    write,
    wrong_sysctls,
)

DOCUMENTATION = r"""
module: paictl_kernel
short_description: Kernel modules, kernel settings and swap
description: [Modules that are built in count as loaded; nothing is changed that is right already.]
options:
  modules: {description: Modules to load., type: list, elements: str, default: []}
  sysctls: {description: Settings., type: dict, default: {}}
  swap_allowed: {description: Whether swap may stay on., type: bool, default: false}
author: [paictl]
"""
EXAMPLES = r"""
- name: Kernel
  paictl_kernel:
    modules: [overlay]
    sysctls: {net.ipv4.ip_forward: 1}
"""
RETURN = r"""
changes:
  description: What was changed, one line each.
  returned: always
  type: list
  elements: str
"""


def change(module, modules, sysctls, swap, lines):
    """Do it; ends the module with the first thing that does not work."""
    for name in modules:
        code, _, error = run(["modprobe", name])
        if code:
            module.fail_json(
                msg="the kernel module %s cannot be loaded: %s" % (name, error.strip()),
                hint="install the kernel's modules, or a kernel that has it built in",
            )
    for name, value in wrong_sysctls({**sysctls, **module.params["sysctls"]}).items():
        try:
            with open("/proc/sys/" + name.replace(".", "/"), "w", encoding="ascii") as file:
                file.write(str(value))
        except OSError as error:
            module.fail_json(msg="%s cannot be set to %s: %s" % (name, value, error.strerror))
    if swap:
        code, _, error = run(["swapoff", "-a"], seconds=300)
        if code:
            module.fail_json(msg="swap cannot be switched off: " + error.strip())
    if lines:
        kept = ["# paictl: " + line if line in lines else line for line in read("/etc/fstab").splitlines()]
        write("/etc/fstab", "\n".join(kept) + "\n", "0644")


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "modules": {"type": "list", "elements": "str", "default": []},
            "sysctls": {"type": "dict", "default": {}},
            "swap_allowed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    allowed = module.params["swap_allowed"]
    modules, sysctls = missing_modules(module.params["modules"]), wrong_sysctls(module.params["sysctls"])
    swap, lines = ([], []) if allowed else (active_swap(), swap_lines(read("/etc/fstab")))
    changes = ["module " + name for name in modules]
    changes += ["%s = %s" % one for one in sorted(sysctls.items())]
    changes += ["swap off: " + one for one in swap] + ["/etc/fstab: " + one for one in lines]
    if changes and not module.check_mode:
        change(module, modules, sysctls, swap, lines)
    module.exit_json(changed=bool(changes), changes=changes, diff={"before": "", "after": "\n".join(changes)})


if __name__ == "__main__":
    main()
