"""The pages of the portal as every kind of cluster has to show them, and what axe-core says about them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.browser import Page

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paictl"
AXE = max(CACHE.glob("axe-core-*/axe.min.js"), default=CACHE / "axe-core" / "axe.min.js")
"""Where `make axe` has put axe-core."""
NAVIGATION = ["Home", "Jobs", "Submit", "Templates", "Cluster", "Device hours", "Administration"]
SHOWN = {
    "/": "Home",
    "/jobs": "Jobs",
    "/jobs/root/one": "root~one Running",
    "/jobs/root/two": "root~two Waiting",
    "/jobs/root/two/why": "Why root~two waits Waiting",
    "/submit": "Submit a job",
    "/submit?clone=root~two&replace=yes": "Submit a job",
    "/templates": "Templates",
    "/cluster": "Cluster",
    "/cluster/defragmentation?for=1xGPU-NODE": "Defragmentation",
    "/usage": "Device hours",
    "/account": "root",
    "/admin/users": "Users",
    "/admin/users/ann": "ann",
    "/admin/nodes": "Nodes",
    "/admin/services": "Services",
    "/admin/configuration": "Configuration",
    "/nowhere": "Page not found",
}
"""How the heading of each page begins, for the administrator `root` with jobs `one` that runs and `two` that waits."""


def wrong_with(page: Page, address: str) -> dict[str, str]:
    """What is wrong with each page: another heading or navigation, or what axe-core found; empty if nothing."""
    source, found = AXE.read_text(encoding="utf-8"), {}
    for path, heading in SHOWN.items():
        page.open(address + path)
        shown = page.run("document.querySelector('h1').innerText.replace(/\\s+/g, ' ').trim()")
        names = page.run("[...document.querySelectorAll('header nav a')].map(link => link.innerText.trim())")
        page.run(f"{source}; window.axed = null; axe.run().then(found => {{ window.axed = found.violations; }}); 0")
        page.until("window.axed !== null")
        said = page.run("JSON.stringify(window.axed.map(one => [one.id, one.nodes.map(node => node.html)]))")
        if not shown.startswith(heading) or names != NAVIGATION or said != "[]":
            found[path] = json.dumps([shown, names, json.loads(said)])
    return found
