"""Sections of the services configuration: known, complete, and read as they stand there."""

from __future__ import annotations

from pathlib import PurePath

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.services.drivers import IMAGE
from paictl.config.linting.rules.shape.words import dotted, suggested
from paictl.config.models.services import (
    GONE,
    NEAR_NAMES,
    STANDARD_NAME,
    UserGroup,
    described_keys,
    load_images,
    services_of,
)
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("SVC701", "empty-section", ERROR)
def empty_section(document: Document) -> Findings:
    """A section is empty.

    Why: OpenPAI lays the section over the service's defaults; with nothing there it stops with a TypeError that names
    no file. A section that is left out is fine.

    Fails with::

        # services-configuration.yaml
           default-pai-admin-password: not-a-default-1
        +grafana:
    """
    # Every section without a value; legacy ones have a rule of their own.
    for path, entry, schema in described_keys(document):
        if len(path) > 1:
            continue
        empty = isinstance(entry.value, ScalarNode) and entry.value.tag == "null"
        if empty and "deprecationMessage" not in schema:
            message = text("section {entry!r} is empty, on which OpenPAI stops with a TypeError", entry=entry.name)
            yield Finding(entry.key, message, "remove the line, or write settings below it")


@rule("SVC709", "legacy-service-setting", WARNING)
def legacy_service_setting(document: Document) -> Findings:
    """A section or key belongs to an old release of OpenPAI.

    Why: releases since v1.0 silently ignore it, or keep it for one more release only.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        grafana: {port: 3000}

    Fails with::

        # services-configuration.yaml
        -grafana: {port: 3000}
        +grafana: {grafana-port: 3000}
    """
    # Every key that the schema marks as deprecated, with what to do instead.
    for path, entry, schema in described_keys(document):
        advice = schema.get("deprecationMessage")
        if advice:
            legacy = "section {path} is legacy" if len(path) == 1 else "key {path} is legacy"
            yield Finding(entry.key, text(legacy, path=dotted(path)), advice)


@rule("SVC710", "no-hived-config", WARNING)
def no_hived_config(document: Document) -> Findings:
    """There is a section for HiveD, but no configuration in it.

    Why: OpenPAI then leaves HiveD out and uses the default scheduler, which knows neither virtual clusters nor
    topology.

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
    # The section, if its config is missing or blank.
    section = document.top.get("hivedscheduler")
    if not isinstance(section, MappingNode):
        return
    config = section.get("config")
    if config is None or (isinstance(config, ScalarNode) and (config.tag == "null" or not config.text.strip())):
        at = section.key("config") or document.top.key("hivedscheduler") or section
        message = "hivedscheduler has no config, so the default scheduler is used"
        yield Finding(at, message, "write the configuration below config: |, or remove the section")


@rule("SVC711", "duplicate-group", ERROR)
def duplicate_group(document: Document) -> Findings:
    """Two groups have the same name.

    Why: OpenPAI creates each group that does not exist yet; a second one of the same name is skipped, with its rights.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        authentication:
          OIDC: false
          group-manager:
            group-data-source: basic
            admin-group: {groupname: admins, extension: {acls: {admin: true}}}
            default-group: {groupname: everybody, extension: {acls: {admin: false}}}

    Fails with::

        # services-configuration.yaml
             default-group: {groupname: everybody, extension: {acls: {admin: false}}}
        +    grouplist:
        +    - groupname: vision
        +    - groupname: vision
    """
    # Every group after the first of its name.
    first: dict[str, UserGroup] = {}
    for group in services_of(document).groups:
        earlier = first.setdefault(group.name.text, group)
        if earlier is not group:
            line = place_of(earlier.name).line
            message = text(
                "group {group!r} appears twice, first in line {line} ({place})",
                group=group.name.text,
                line=line,
                place=earlier.place,
            )
            yield Finding(group.name, message, "rename one of the two")


_NESTED = {
    ("authentication", "group-manager"): ("group-data-source", "admin-group", "default-group"),
    ("prometheus-pushgateway", "metrics-cleaner"): ("job-time-to-live", "clean-interval"),
}
"""Nested defaults that services read without asking whether they are there."""


@rule("SVC713", "dropped-defaults", ERROR)
def dropped_defaults(document: Document) -> Findings:
    """A nested key is set only in part, so the rest of its defaults are lost.

    Why: except for `cluster` and `alert-manager`, OpenPAI merges only the first level: a `group-manager` with nothing
    but a `grouplist` has no administrators' group any more.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        authentication:
          OIDC: false
          group-manager:
            group-data-source: basic
            admin-group: {groupname: admins, extension: {acls: {admin: true}}}
            default-group: {groupname: everybody, extension: {acls: {admin: false}}}

    Fails::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        authentication:
          group-manager:
            grouplist:
            - groupname: vision
    """
    # Every nested mapping that lacks keys which its default has.
    for (section, key), needed in _NESTED.items():
        nested = document.top.mapping(section).get(key)
        if not isinstance(nested, MappingNode):
            continue
        missing = [name for name in needed if name not in nested]
        if missing:
            at = document.top.mapping(section).key(key) or nested
            message = text(
                "{section}.{key} replaces its default as a whole and lacks {missing}",
                section=section,
                key=key,
                missing=", ".join(missing),
            )
            yield Finding(at, message, "write these keys too")


@rule("SVC717", "other-file-name", WARNING)
def other_file_name(document: Document) -> Findings:
    """A file of service settings has a name that only resembles the one that is read.

    Why: textbooks write service-configuration.yaml; OpenPAI reads services-configuration.yaml. With a file of the
    other name beside the real one, it is unclear which of the two is used.

    Fails::

        # service-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
    """
    name = PurePath(document.path).name
    if name in NEAR_NAMES:
        yield Finding(
            document.beginning,
            text("OpenPAI does not read {name}", name=name),
            text("rename it to {standard_name}", standard_name=STANDARD_NAME),
        )


@rule("SVC718", "service-gone", INFO)
def service_gone(document: Document) -> Findings:
    """A section is for an OpenPAI service that paictl does not have.

    Why: other services do its work now, so its settings have no effect. They are kept and do no harm; the
    services that took its place are named.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        webportal: {server-port: 9286}

    Fails with::

        # services-configuration.yaml
        -webportal: {server-port: 9286}
        +pylon: {port: 80}
    """
    # Every section of a service that was given up, with what took its place.
    for entry in document.top:
        instead = GONE.get(entry.key.text)
        if instead:
            yield Finding(
                entry.key,
                text("section {entry} has no effect: paictl has no such service", entry=entry.key.text),
                instead,
            )


@rule("SVC719", "unknown-image", WARNING)
def unknown_image(document: Document) -> Findings:
    """An image is named that no service of paictl uses.

    Why: services ask for their images by the names of `templates/images.yaml`, so a reference under another name is
    never used: the service starts with the image that comes with paictl.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        images:
          node-exporter: registry.example/monitoring/node-exporter:v1.10.2

    Fails with::

        # services-configuration.yaml
        -  node-exporter: registry.example/monitoring/node-exporter:v1.10.2
        +  node-exprter: registry.example/monitoring/node-exporter:v1.10.2
    """
    # Every name in the section of images that is in no template.
    named = document.top.mapping("images")
    if not named:
        return
    known = load_images()
    for entry in named:
        if entry.key.text not in known and not entry.key.text.startswith(IMAGE):  # of a driver for another system
            hint = suggested(entry.key, known, text("the names are: {known}", known=", ".join(known)))
            yield Finding(entry.key, text("no service uses an image {entry!r}", entry=entry.key.text), *hint)


@rule("SVC740", "devices-offered-twice", ERROR)
def devices_offered_twice(document: Document) -> Findings:
    """`device-plugin` and `dra-driver` would both offer the NVIDIA GPUs.

    Why: the two do not know of each other, and give the same GPU to two pods. `paictl service start` refuses the
    second. Device plugins of other vendors can run beside the DRA driver: name them in `device-plugin.devices`.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        device-plugin: {enabled: false}
        dra-driver: {enabled: true}

    Fails with::

        # services-configuration.yaml
        -device-plugin: {enabled: false}
    """
    # The switch of the DRA driver, where NVIDIA's device plugin is on.
    plugin, driver = document.top.mapping("device-plugin"), document.top.mapping("dra-driver").scalar("enabled")
    switch = plugin.scalar("enabled")
    devices = [scalar.text for scalar in plugin.sequence("devices").scalars()]
    ours = not devices or any("/" not in device or device.startswith("nvidia.com/") for device in devices)
    if driver is not None and driver.value is True and ours and (switch is None or switch.value is not False):
        message = text("dra-driver and device-plugin would both offer the NVIDIA GPUs")
        yield Finding(
            driver, message, "set device-plugin: {enabled: false}, or name only other devices in its `devices`"
        )
