"""config.yaml and services-configuration.yaml say different things about the same setting.

Why: services-configuration.yaml is made from config.yaml; where it was changed by hand since, one half of the tools
deploys the one value and the rest the other.

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

Fails with::

    # services-configuration.yaml
       jwt-secret: 7f2c-salt-of-this-cluster
    +cluster:
    +  docker-registry:
    +    tag: v1.7.0
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Bundle, Finding, Findings, rule
from paictl.config.models.placeholders import is_placeholder
from paictl.config.models.settings import filled
from paictl.config.reading.kinds import FileKind

_SAME = (
    ("docker_image_tag", ("cluster", "docker-registry", "tag")),
    ("docker_registry_domain", ("cluster", "docker-registry", "domain")),
    ("docker_registry_namespace", ("cluster", "docker-registry", "namespace")),
    ("qos-switch", ("cluster", "common", "qos-switch")),
    ("docker_data_root", ("cluster", "common", "docker-data-root")),
)


@rule("XRF915", "setting-differs", WARNING)
def check(bundle: Bundle) -> Findings:
    """Each setting that both files give, with different values; the finding stands at the service's."""
    settings, services = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    if settings is None or services is None:
        return
    for key, (*sections, last) in _SAME:
        wanted, given = filled(settings, key), services.top.at(*sections).text(last)
        if wanted is not None and given is not None and wanted.text != given.text and not is_placeholder(given.text):
            path = ".".join((*sections, last))
            message = f"{path} is {given.text!r}, but {key} in {settings.path} is {wanted.text!r}"
            yield Finding(given, message, "write the same value in both files")
