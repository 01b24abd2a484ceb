"""Programs and modules that run on hosts, which are no part of the package: loaded from their files."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from tests.conftest import ROOT


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
