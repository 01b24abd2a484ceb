"""Alert rules, dashboards and what is looked at: they name what exists."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping

from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.extender.server import ExtenderService
from paictl.placer.term import PlacerService
from tests.conftest import ROOT
from tests.unit.cluster.catalogue import (
    KINDS_WITH_PODS,
    Catalogue,
    by_name,
    dashboards,
    objects,
    prometheus,
)

OTHERS = frozenset(
    """up
    node_cpu_seconds_total node_memory_MemAvailable_bytes node_memory_MemTotal_bytes node_network_receive_bytes_total
    node_filesystem_avail_bytes node_filesystem_size_bytes node_filesystem_readonly
    container_cpu_usage_seconds_total container_memory_working_set_bytes container_network_receive_bytes_total
    container_network_transmit_bytes_total container_fs_reads_bytes_total container_fs_writes_bytes_total
    """.split()  # noqa: SIM905 - read as a text
)
"""Metrics of Prometheus, node-exporter 1.10 and the kubelet (cAdvisor) that may be named."""
WORDS = frozenset("by without on ignoring group_left group_right and or unless bool offset le".split())  # noqa: SIM905


PREFIXES = (ExtenderService.prefix, PlacerService.prefix)


def own_metrics() -> Mapping[str, frozenset[str]]:
    """Our metrics as Prometheus knows them, with their labels, read from where they are made."""
    found: dict[str, frozenset[str]] = {}
    for path in sorted((ROOT / "paictl").rglob("metrics.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="_gauge"),
                    args=[ast.Constant(value=str(name)), _, ast.Constant(value=str(label)), *_],
                ):
                    found |= {f"{prefix}_{name}": frozenset({label}) for prefix in PREFIXES}
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            for name in _metric_names(node.args[0]):
                written = next((one.value for one in node.keywords if one.arg == "labels"), None)
                written = node.args[2] if node.func.id == "Histogram" else written
                labels = frozenset(ast.literal_eval(written)) if written is not None else frozenset()
                match node.func.id:
                    case "CounterMetricFamily":
                        found[f"{name}_total"] = labels
                    case "Histogram":
                        found[f"{name}_bucket"] = labels | {"le"}
                    case _:
                        found[name] = labels
    return found


def _metric_names(written: ast.expr) -> list[str]:
    """The names that an argument stands for: a text, or one that begins with the prefix of extender and placer."""
    match written:
        case ast.Constant(value=str(name)) if name.startswith("paictl_"):
            return [name]
        case ast.JoinedStr(
            values=[ast.FormattedValue(value=ast.Attribute(attr="prefix")), ast.Constant(value=str(end))]
        ):
            return [f"{prefix}{end}" for prefix in PREFIXES]
    return []


def names_in(expression: str) -> set[str]:
    """Names of metrics in PromQL: words that are no function, label, duration or keyword."""
    plain = re.sub(r'"(?:\\.|[^"\\])*"', '""', expression)
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", plain)
    plain = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", plain)
    return {word for word in re.findall(r"[A-Za-z_:][\w:]*(?!\w|\s*\()", plain) if word not in WORDS}


def test_the_reader_of_promql_finds_names() -> None:
    assert names_in('sum by (a, b) (rate(x_total{a="b{c}"}[5m])) / on (d) y unless absent(z == 1) > 3') == {
        "x_total",
        "y",
        "z",
    }


def expressions(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """(where, PromQL) of rules and dashboards."""
    found = catalogue["preset lab"]
    rules = prometheus(found, "rules.yml")
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for name, board in dashboards(found).items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            query = variable["query"]["query"]
            yield f"{name}: {variable['name']}", query[len("label_values(") : query.rindex(",")]


def test_rules_and_dashboards_name_metrics_that_exist(catalogue: Catalogue) -> None:
    own = own_metrics()
    assert {"paictl_extender_cells", "paictl_extender_request_seconds_bucket", "paictl_controller_jobs"} <= own.keys()
    counters = by_name(catalogue["preset lab"]["job-exporter"], "ConfigMap", "job-exporter")["data"]["counters.csv"]
    devices = {line.partition(",")[0] for line in counters.splitlines()}
    found = dict(expressions(catalogue))
    assert len(found) > 50
    for where, expression in found.items():
        unknown = names_in(expression) - own.keys() - OTHERS - devices
        assert not unknown, (where, expression)
        for name, labels in re.findall(r"(paictl_\w+)\{([^}]*)\}", expression):
            assert {one.split("=")[0].strip("~!") for one in labels.split(",")} <= own[name], where
    for name in own:
        grouped = {
            label.strip()
            for where, expression in found.items()
            if names_in(expression) == {name}
            for labels in re.findall(r"by \(([^)]*)\)", expression)
            for label in labels.split(",")
        }
        assert grouped <= own[name] | {"node", "job", "instance"}, name


def test_an_alert_says_what_and_what_to_do(catalogue: Catalogue) -> None:
    rules = prometheus(catalogue["preset lab"], "rules.yml")
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert {"summary", "description"} == rule["annotations"].keys()
        for text in rule["annotations"].values():
            assert text.count("{{") == text.count("}}")


def test_what_is_looked_at_is_there_under_that_name(catalogue: Catalogue) -> None:
    """Jobs of the scrape configuration: label and port of pods that some template makes."""
    found = catalogue["preset lab"]
    config = prometheus(found, "prometheus.yml")
    jobs = ("services", "scheduler")
    scraped = [one for one in config["scrape_configs"] if one["job_name"] in jobs]
    kept = {one["job_name"]: one["relabel_configs"][0]["regex"] for one in scraped}
    assert set(kept) == set(jobs)
    wanted = "|".join(f"(?:{one})" for one in kept.values())
    there = {
        f"{body['spec']['template']['metadata']['labels']['app.kubernetes.io/name']};{port['name']}"
        for _, body in objects(found, *KINDS_WITH_PODS)
        for container in body["spec"]["template"]["spec"]["containers"]
        for port in container.get("ports", ())
    }
    looked_at = {one.partition(";")[0] for one in there if re.fullmatch(wanted, one)}
    assert looked_at == {
        "hivedscheduler-extender",
        "frameworkcontroller",
        "alert-manager",
        "node-exporter",
        "job-exporter",
    }
    named = {job for _, expression in expressions(catalogue) for job in re.findall(r'\bjob="([^"]+)"', expression)}
    assert named <= looked_at
    (target,) = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert target == f"alert-manager.{NAMESPACE}.svc:9093"


def test_dashboards_are_what_grafana_reads(catalogue: Catalogue) -> None:
    boards = dashboards(catalogue["preset lab"])
    assert set(boards) == {"cluster.json", "virtual-cluster.json", "job.json"}
    for name, board in boards.items():
        assert board["uid"] == f"paictl-{name.removesuffix('.json')}"
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & taken
            assert at["x"] + at["w"] <= 24
            taken |= cells
        used = set(re.findall(r"\$(\w+)", json.dumps(board)))
        assert used == {one["name"] for one in board["templating"]["list"]}
