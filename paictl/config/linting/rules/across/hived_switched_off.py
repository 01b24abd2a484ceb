"""HiveD is switched off in config.yaml, but configured in services-configuration.yaml.

Why: with enable_hived_scheduler: false the default scheduler runs: the promises to virtual clusters are written down
and not kept.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: chief
      default-pai-admin-password: Ember-Quay-90
      jwt-secret: 7f2c-salt-of-this-cluster
    hivedscheduler:
      config: |
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 7, memory: 60000Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
          physicalCells:
          - {cellType: V100-NODE, cellAddress: pai-worker-1}
          - {cellType: V100-NODE, cellAddress: pai-worker-2}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: V100-NODE, cellNumber: 2}

Fails::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
    enable_hived_scheduler: false
    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: chief
      default-pai-admin-password: Ember-Quay-90
      jwt-secret: 7f2c-salt-of-this-cluster
    hivedscheduler:
      config: |
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 7, memory: 60000Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
          physicalCells:
          - {cellType: V100-NODE, cellAddress: pai-worker-1}
          - {cellType: V100-NODE, cellAddress: pai-worker-2}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: V100-NODE, cellNumber: 2}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import Kind
from paictl.config.reading.problem import Finding, Severity
from paictl.config.reading.source import place_of

ID = "XRF911"
NAME = "hived-switched-off"
SEVERITY = Severity.WARNING


def check(bundle: Bundle) -> Iterator[Finding]:
    """A real `false` beside a hivedscheduler section that holds a configuration."""
    settings, services = bundle.only(Kind.CONFIG), bundle.only(Kind.SERVICES)
    if settings is None or services is None:
        return
    switch = settings.top.scalar("enable_hived_scheduler")
    config = services.top.mapping("hivedscheduler").text("config")
    if switch is not None and switch.value is False and config is not None and config.text.strip():
        message = f"HiveD is switched off, but {services.path} configures it in line {place_of(config).line}"
        yield Finding(switch, message, "write true, or remove the section hivedscheduler")
