"""What commands for hosts need beyond the standard installation."""

from __future__ import annotations

from importlib.util import find_spec

from paictl.errors import PaictlError
from paictl.i18n import text


def require_deploy() -> None:
    """Raise `PaictlError` in one line if the extra `deploy` is not installed."""
    for module in ("fabric", "ansible_runner"):
        if find_spec(module) is None:
            raise PaictlError(
                text("commands for hosts need the package {name}", name=module.replace("_", "-")),
                hint="install it: pip install 'paictl[deploy]'",
            )
