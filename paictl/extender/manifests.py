"""The objects that the extender runs as, from ``templates/hivedscheduler/manifests.yaml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Template
from typing import Any, Final

import yaml

from paictl.errors import PaictlError
from paictl.resources import resource_folder

Json = dict[str, Any]

KUBE_IMAGE: Final = "registry.k8s.io/kube-scheduler:v1.37.1"
IN_CLUSTER: Final = re.compile(r'\n *kubeconfig: "@KUBECONFIG@"')
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_DELETE: Final = '  - {apiGroups: [""], resources: [pods], verbs: [delete]}'
_NOTHING: Final = """\
# put your hivedscheduler configuration here, or have it put here: paictl extender config --config FILE
physicalCluster:
  cellTypes: {}
  physicalCells: []
virtualClusters: {}"""
_LABELS: Final = {"app.kubernetes.io/part-of": "paictl", "app.kubernetes.io/managed-by": "paictl"}


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen about the objects."""

    scheduler_name: str = "hivedscheduler"
    namespace: str = "paictl-system"
    image: str = ""
    kube_image: str = KUBE_IMAGE
    replicas: int = 2
    hived_config: str = ""
    """Text of a hivedscheduler configuration."""
    delete_after: float | None = None


def objects(choices: Choices, version: str) -> list[Json]:
    """All objects, in an order in which they can be applied. Raises `PaictlError` for a name that is none."""
    for what, name in (("scheduler name", choices.scheduler_name), ("namespace", choices.namespace)):
        if not _NAME.fullmatch(name):
            raise PaictlError(f"the {what} {name!r} is none: lower case letters, digits, - and . are allowed")
    text = (resource_folder("templates") / "hivedscheduler" / "manifests.yaml").read_text(encoding="utf-8")
    config = choices.hived_config.strip("\n") or _NOTHING
    filled = Template(IN_CLUSTER.sub("", text)).substitute(
        scheduler_name=choices.scheduler_name,
        namespace=choices.namespace,
        version=version,
        image=choices.image or f"paictl:{version}",
        kube_image=choices.kube_image,
        replicas=choices.replicas,
        hived_config="\n".join(f"    {line}".rstrip() for line in config.splitlines()),
        delete_rule=_DELETE if choices.delete_after is not None else "",
    )
    found: list[Json] = [one for one in yaml.safe_load_all(filled) if one]
    for one in found:
        about = one["metadata"]
        name = "hivedscheduler-extender" if about["name"].startswith("hivedscheduler-extender") else "hivedscheduler"
        labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/version": version, **_LABELS}
        about["labels"] = labels | about.get("labels", {})
        if one["kind"] == "Deployment" and name.endswith("extender") and choices.delete_after is not None:
            command = one["spec"]["template"]["spec"]["containers"][0]["command"]
            command += ["--delete-after", f"{choices.delete_after:g}"]
    return found


def scheduler_configuration(choices: Choices) -> Json:
    """The `KubeSchedulerConfiguration` alone, for a kube-scheduler that runs elsewhere."""
    for one in objects(choices, "0"):
        if one["kind"] == "ConfigMap":
            found: Json = yaml.safe_load(one["data"]["scheduler.yaml"])
            return found
    raise AssertionError("the template has a ConfigMap")


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks; nothing shared."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - objects stand alone
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(found: list[Json]) -> str:
    """Documents for ``kubectl apply -f -``."""
    return yaml.dump_all(found, Dumper=_Dumper, sort_keys=False, width=1000, explicit_start=True)
