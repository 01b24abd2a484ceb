"""Every file that the templates render for Prometheus and Alertmanager, read by the programs that will read it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from tests.monitoring.programs import program, said
from tests.unit.cluster.catalogue import CONFIGURATIONS, Catalogue, by_name, containers, pods

WITH = [name for name in CONFIGURATIONS if name != "own certificate"]
"""Configurations in which the services are on."""


def prometheus_files(catalogue: Catalogue, configuration: str, folder: Path) -> Path:
    """The files of Prometheus, whose paths are as in its pod, but for the folder; its configuration."""
    data = by_name(catalogue[configuration]["prometheus"], "ConfigMap", "prometheus")["data"]
    for name, text in data.items():
        (folder / name).write_text(text.replace("/etc/prometheus", str(folder)))
    return folder / "prometheus.yml"


@pytest.mark.parametrize("configuration", WITH)
def test_prometheus_reads_its_configuration(catalogue: Catalogue, configuration: str, tmp_path: Path) -> None:
    # not the token: it is there in a pod only
    code, out = said(
        "promtool", "check", "config", "--syntax-only", prometheus_files(catalogue, configuration, tmp_path)
    )
    assert code == 0, out


@pytest.mark.parametrize("configuration", WITH)
def test_prometheus_reads_its_rules_and_has_nothing_to_say_about_them(
    catalogue: Catalogue, configuration: str, tmp_path: Path
) -> None:
    prometheus_files(catalogue, configuration, tmp_path)
    code, out = said("promtool", "check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yml")
    assert code == 0, out
    own = tmp_path / "customized.yml"
    code, out = said("promtool", "check", "rules", own)
    number = sum(len(group["rules"]) for group in yaml.safe_load(own.read_text())["groups"])
    assert code == 0, out
    assert f"SUCCESS: {number} rules found" in out


@pytest.mark.parametrize("configuration", WITH)
def test_alertmanager_reads_its_configuration(catalogue: Catalogue, configuration: str, tmp_path: Path) -> None:
    secret = by_name(catalogue[configuration]["alert-manager"], "Secret", "alert-manager")
    path = tmp_path / "alertmanager.yml"
    path.write_bytes(base64.b64decode(secret["data"]["alertmanager.yml"]))
    code, out = said("amtool", "check-config", path)
    assert code == 0, out
    receivers = {"all options": 3}.get(configuration, 1)
    assert f" - {receivers} receivers" in out


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [(["alertname=NodeDown", "severity=critical"], "chat"), (["alertname=VcFull", "severity=info"], "administrator")],
)
def test_an_alert_goes_where_the_routes_say(
    catalogue: Catalogue, labels: list[str], receivers: str, tmp_path: Path
) -> None:
    secret = by_name(catalogue["all options"]["alert-manager"], "Secret", "alert-manager")
    path = tmp_path / "alertmanager.yml"
    path.write_bytes(base64.b64decode(secret["data"]["alertmanager.yml"]))
    code, out = said("amtool", "config", "routes", "test", f"--config.file={path}", *labels)
    assert (code, out.strip()) == (0, receivers)


@pytest.mark.parametrize("service", ["prometheus", "alert-manager", "node-exporter"])
@pytest.mark.parametrize("configuration", WITH)
def test_every_option_of_a_pod_is_known_to_the_program(catalogue: Catalogue, configuration: str, service: str) -> None:
    name = {"alert-manager": "alertmanager"}.get(service, service)
    help_page = said(name, "--help-long" if name != "node-exporter" else "--help")[1]
    ((_, spec),) = pods({service: catalogue[configuration][service]})
    (container,) = containers(spec)
    assert program(name).is_file()
    for word in container["args"]:
        assert f"{word.partition('=')[0]}=" in help_page.replace("]", "="), word
