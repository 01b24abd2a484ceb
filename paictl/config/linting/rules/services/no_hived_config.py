"""There is a section for HiveD, but no configuration in it.

Why: OpenPAI then leaves HiveD out and uses the default scheduler, which knows neither virtual clusters nor topology.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    hivedscheduler:
      config: |
        physicalCluster:
          skuTypes: {V100: {gpu: 1, cpu: 8, memory: 65536Mi}}
          cellTypes:
            NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    hivedscheduler:
      config: ""
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.nodes import Mapping, Scalar
from paictl.config.reading.problem import Finding, Severity

ID = "SVC710"
NAME = "no-hived-config"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """The section, if its config is missing or blank."""
    section = document.top.get("hivedscheduler")
    if not isinstance(section, Mapping):
        return
    config = section.get("config")
    if config is None or (isinstance(config, Scalar) and (config.tag == "null" or not config.text.strip())):
        at = section.key("config") or document.top.key("hivedscheduler") or section
        message = "hivedscheduler has no config, so that the default scheduler is used"
        yield Finding(at, message, "write the configuration below config: |, or remove the section")
