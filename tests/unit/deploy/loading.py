"""Programs and modules that run on hosts, which are no part of the package: loaded from their files."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

from tests.conftest import ROOT

_SHARED = ("paictl_host", "paictl_unit")
"""Modules that others import, each before those that import it."""


def load(path: str) -> Any:
    """The module in a file below ``playbooks/``."""
    name = path.rpartition("/")[2].removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, ROOT / "playbooks" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def load_beside(path: str) -> Any:
    """The same for a module that imports others of ``module_utils``, or Ansible's own class, as Ansible has them."""
    names = ["ansible", "ansible.module_utils", *(f"ansible.module_utils.{name}" for name in ("basic", *_SHARED))]
    before = {name: sys.modules.get(name) for name in names}
    for name in names[:2]:
        sys.modules.setdefault(name, types.ModuleType(name))
    basic: Any = types.ModuleType("basic")
    basic.AnsibleModule = object
    sys.modules["ansible.module_utils.basic"] = basic
    try:
        for name in _SHARED:
            sys.modules[f"ansible.module_utils.{name}"] = load(f"module_utils/{name}.py")
        return load(path)
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
