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

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +enable_hived_scheduler: false
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Bundle, Finding, Findings, rule
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.source import place_of


@rule("XRF911", "hived-switched-off", WARNING)
def check(bundle: Bundle) -> Findings:
    """A real `false` beside a hivedscheduler section that holds a configuration."""
    settings, services = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    if settings is None or services is None:
        return
    switch = settings.top.scalar("enable_hived_scheduler")
    config = services.top.mapping("hivedscheduler").text("config")
    if switch is not None and switch.value is False and config is not None and config.text.strip():
        message = f"HiveD is switched off, but {services.path} configures it in line {place_of(config).line}"
        yield Finding(switch, message, "write true, or remove the section hivedscheduler")
