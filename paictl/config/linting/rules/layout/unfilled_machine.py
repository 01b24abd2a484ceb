"""A field of the layout still holds what the template put there.

Why: templates name machines ``hostname (echo `hostname`)`` at the address `IP`; the deployment takes that literally.
The same placeholder in the same field is reported once.

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}

Fails with::

    # layout.yaml
    -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    +- {hostname: pai-worker-2, hostip: IP, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.placeholders import is_placeholder, scalars_below
from paictl.config.reading.nodes import ScalarNode


@rule("LAY403", "unfilled-field", ERROR)
def check(document: Document) -> Findings:
    """Each placeholder, at its first place, with how often it comes again."""
    found: dict[tuple[str, str], list[tuple[str, ScalarNode]]] = {}
    for path, scalar in scalars_below(document.top):
        if is_placeholder(scalar.text):
            found.setdefault((path.rpartition(".")[2], scalar.text), []).append((path, scalar))
    for (field, text), places in found.items():
        path, first = places[0]
        more = f" (and in {len(places) - 1} more)" if len(places) > 1 else ""
        shown = "a placeholder" if field == "password" else f"the placeholder {abridged(text)}"
        yield Finding(first, f"{path} is still {shown}{more}", f"write the real {field}")
