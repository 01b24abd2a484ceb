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

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode, ScalarNode


@rule("SVC710", "no-hived-config", WARNING)
def check(document: Document) -> Findings:
    """The section, if its config is missing or blank."""
    section = document.top.get("hivedscheduler")
    if not isinstance(section, MappingNode):
        return
    config = section.get("config")
    if config is None or (isinstance(config, ScalarNode) and (config.tag == "null" or not config.text.strip())):
        at = section.key("config") or document.top.key("hivedscheduler") or section
        message = "hivedscheduler has no config, so that the default scheduler is used"
        yield Finding(at, message, "write the configuration below config: |, or remove the section")
