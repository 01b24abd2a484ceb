"""`deploy.storage_class` on hosts: a claim gets a volume, and the class is changed, refused to go, and gone."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.config.models.services import load_images
from tests.e2e_hosts.site import Site, site_of
from tests.e2e_hosts.test_reconfigure import apply, changed, kubectl, plan
from tools.hosts import artifacts as packing
from tools.hosts.artifacts import BUSYBOX
from tools.hosts.lab import Lab
from tools.hosts.local_path import local_path
from tools.hosts.shell import wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1",
    reason="builds for minutes: tools/kube/build.sh localpath && PAICTL_E2E_ALL=1 make e2e-hosts",
)
FIRST = {"provisioner": "local-path", "path": "/srv/volumes"}
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  containers:
  - {{name: main, image: {image}, command: [sh, -c, "echo kept >/data/note"],
     volumeMounts: [{{name: data, mountPath: /data}}]}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
"""


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """All images but the provisioner's."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and a worker without internet, deployed with a storage class."""
    lab.up(2)
    bundle = packing.folder(images=[packing.device_plugin(load_images()["nvidia-device-plugin"]), local_path()])
    bare = site_of(lab, tmp_path_factory.mktemp("site"), bundle, [1], [2])
    made = replace(bare, deploy={**bare.deploy, "offline": True, "storage_class": FIRST}).write()
    assert apply(made).returncode == 0
    return made


def use(site: Site, name: str) -> None:
    """Let a pod write into a volume of a claim that names no storage class."""
    text = CLAIM.format(name=name, image=BUSYBOX)
    command = ["env", "KUBECONFIG=/etc/kubernetes/admin.conf", "kubectl", "apply", "-f", "-"]
    site.lab.machine(1).execute(command, text=text)
    phase = ("get", "pod", name, "-o", "jsonpath={.status.phase}")
    wait_until(lambda: kubectl(site, *phase) == "Succeeded", f"{name} ends", seconds=90)


def notes(site: Site, folder: str) -> list[str]:
    """The files in the volumes below a folder of the worker."""
    return [path.read_text() for path in sorted((site.lab.machine(2).root / folder).glob("*/note"))]


def test_a_claim_gets_a_folder_of_its_node_and_a_second_apply_changes_nothing(site: Site) -> None:
    use(site, "first")
    assert notes(site, "srv/volumes") == ["kept\n"]
    assert plan(site) == []
    assert "nothing changed" in apply(site).stdout
    verified = site.paictl("deploy", "verify", "-o", "json", *site.files)
    found = [one for one in json.loads(verified.stdout)["findings"] if one["check"] == "storage-class"]
    assert [one["verdict"] for one in found] == ["ok"]
    audited = json.loads(site.paictl("deploy", "audit", "-o", "json", *site.files).stdout)
    assert [one for one in audited["findings"] if one["state"] == "fail"] == []


def test_other_values_are_for_new_volumes(site: Site) -> None:
    after = changed(site, storage_class={**FIRST, "path": "/srv/others", "reclaim_policy": "Retain"})
    assert [one["what"] for one in plan(after)] == [["storage class local-path: /srv/others, Retain"]]
    assert apply(after).returncode == 0
    use(site, "second")
    assert (notes(site, "srv/volumes"), notes(site, "srv/others")) == (["kept\n"], ["kept\n"])
    kubectl(site, "delete", "pod,pvc", "first", "second")
    wait_until(lambda: notes(site, "srv/volumes") == [], "the data go with their claim", seconds=90)
    assert notes(site, "srv/others") == ["kept\n"], "these are retained"


def test_it_stays_while_a_volume_needs_it_and_goes_then(site: Site) -> None:
    without = replace(site, deploy={key: value for key, value in site.deploy.items() if key != "storage_class"}).write()
    assert [one["what"] for one in plan(without)] == [["delete storage class local-path"]]
    refused = apply(without)
    assert refused.returncode == 1
    assert "storage class local-path still has volumes: pvc-" in refused.stderr
    assert kubectl(site, "get", "storageclass", "-o", "name").split() == ["storageclass.storage.k8s.io/local-path"]
    kubectl(site, "delete", "pv", "--all")
    assert apply(without).returncode == 0
    assert kubectl(site, "get", "storageclass,pv,namespace,clusterrole", "-o", "name").count("local-path") == 0
    assert plan(without) == []
