"""Pages for the browser in one file, made of ``templates/pages/``: no network, no other files."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from typing import Final

from paictl.resources import resource_folder

_OUTSIDE_HTML: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
"""Characters that must not stand inside a script element, and how JSON writes them instead."""

_PLACE: Final = r"/\*(?P<name>[A-Z-]+)\*/"
"""Where a part goes in the shell of a page."""


def filled_page(
    shell: str, style: str, scripts: Sequence[str], *, title: str, data: object, language: str = "en"
) -> str:
    """A page for the browser in one file, from files of ``templates/pages/``: no network, no other files.

    What the page shows is `data` in a JSON block that its script reads and puts on the screen as text nodes, never as
    markup, so no name can break out. The content security policy of the shell allows that one script, by its hash.
    Raises `FileNotFoundError` if the installation lost a part.
    """
    folder = resource_folder("templates") / "pages"
    around, css, *parts = ((folder / name).read_text(encoding="utf-8").strip() for name in (shell, style, *scripts))
    script = "\n\n".join(parts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    fill = {
        "LANGUAGE": language,
        "TITLE": html.escape(title),
        "SCRIPT-HASH": f"sha256-{digest}",
        "STYLE": css,
        "DATA": json.dumps(data, separators=(",", ":")).translate(_OUTSIDE_HTML),
        "SCRIPT": script,
    }
    # In one pass: what is put in may well look like a place to put something in.
    return re.sub(_PLACE, lambda match: fill[match["name"]], around)
