from __future__ import annotations

from collections.abc import Mapping

import pytest

from paictl.config.pushing.compare import FileDifference, KeyChange, value_text
from paictl.config.pushing.compare import compare_files as compare
from paictl.config.pushing.configfile import of_texts
from paictl.config.pushing.push import read_folder, seal_files
from paictl.config.secrets import sealing as secrets
from paictl.config.secrets.walk import SecretError
from paictl.errors import PaictlError
from tests.conftest import ROOT

SERVICES = "services-configuration.yaml"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COST", (4, 1, 1))


def compare_files(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[FileDifference, ...]:
    return compare(of_texts(old), of_texts(new))


def one(old: str, new: str, name: str = SERVICES) -> FileDifference:
    (found,) = compare_files({name: old}, {name: new})
    return found


def table(found: FileDifference) -> list[str]:
    return [f"{change.what} {change.path}: {change.old!r} -> {change.new!r}" for change in found.changes]


def test_keys_are_added_removed_and_changed_at_any_depth() -> None:
    old = "rest-server: {server-port: 1, jwt-expire-time: 7d}\ngrafana: {port: 3000}\n"
    new = "rest-server: {server-port: 2, jwt-expire-time: 7d, sql-max-connection: 5}\npylon: {port: 80}\n"
    assert table(one(old, new)) == [
        "changed rest-server.server-port: 1 -> 2",
        "added rest-server.sql-max-connection: None -> 5",
        "removed grafana: {'port': 3000} -> None",
        "added pylon: None -> {'port': 80}",
    ]


def test_true_is_not_one() -> None:
    assert one("a: true\n", "a: 1\n").changes == (KeyChange("a", "changed", True, 1),)


def test_items_with_names_are_matched_by_name() -> None:
    old = "machine-list:\n- {hostname: w1, hostip: 10.0.0.1}\n- {hostname: w2, hostip: 10.0.0.2}\n"
    new = old.replace("10.0.0.2", "10.0.0.3").replace("list:\n", "list:\n- {hostname: w0, hostip: 10.0.0.9}\n")
    assert table(one(old, new, "layout.yaml")) == [
        "changed machine-list.w2.hostip: '10.0.0.2' -> '10.0.0.3'",
        "added machine-list.w0: None -> {'hostname': 'w0', 'hostip': '10.0.0.9'}",
    ]


def test_items_without_names_are_matched_by_place_and_plain_lists_as_a_whole() -> None:
    assert table(one("a: [{x: 1}, {x: 2}]\nb: [1]\n", "a: [{x: 1}, {x: 3}]\nb: [1, 2]\n")) == [
        "changed a[1].x: 2 -> 3",
        "changed b: [1] -> [1, 2]",
    ]


def test_the_embedded_scheduler_configuration_is_compared_key_by_key() -> None:
    old = "hivedscheduler:\n  config: |\n    virtualClusters:\n      a: {cells: 1}\n"
    assert table(one(old, old.replace("1", "2"))) == ["changed hivedscheduler.config.virtualClusters.a.cells: 1 -> 2"]


def test_comments_alone_are_a_difference_of_lines_only() -> None:
    found = one("a: 1\n", "a: 1 # why\n")
    assert (found.what, found.changes) == ("changed", ())
    assert found.lines[-2:] == ("-a: 1", "+a: 1 # why")


def test_files_come_and_go() -> None:
    found = compare_files(
        {"config.yaml": "user: a\n", "x.csv": "h,1\n"}, {"x.csv": "h,1\n", "layout.yaml": "machine-list: []\n"}
    )
    assert [(file.name, file.what) for file in found] == [
        ("config.yaml", "removed"),
        ("layout.yaml", "added"),
        ("x.csv", None),
    ]
    assert table(found[0]) == ["removed user: 'a' -> None"]


def test_host_lists_are_compared_by_host() -> None:
    assert table(one("a,10.0.0.1\nb,10.0.0.2\n", "b,10.0.0.3\nc,10.0.0.4\n", "worker.csv")) == [
        "removed a: '10.0.0.1' -> None",
        "changed b: '10.0.0.2' -> '10.0.0.3'",
        "added c: None -> '10.0.0.4'",
    ]


def test_secrets_are_never_shown_only_that_they_changed() -> None:
    old = "rest-server: {jwt-secret: GEHEIM1, default-pai-admin-password: GEHEIM2}\n"
    new = "rest-server: {jwt-secret: GEHEIM1, default-pai-admin-password: GEHEIM3}\n"
    for before in (old, seal_files({SERVICES: old})[SERVICES]):
        found = one(before, new)
        assert "GEHEIM" not in repr(found)
        assert "sealed" not in repr(found)
        assert table(found) == ["changed rest-server.default-pai-admin-password: '<secret>' -> '<secret> (changed)'"]
        assert found.lines[-1].count("(changed)") == 1
        assert one(before, old) == FileDifference(SERVICES, None)


def test_a_secret_that_comes_or_goes_is_masked_too() -> None:
    text = "rest-server: {jwt-secret: GEHEIM}\n"
    for found in (*compare_files({}, {SERVICES: text}), one("rest-server: {}\n", text), one(text, "a: 1\n")):
        assert found.changes
        assert "GEHEIM" not in repr(found)


def test_two_sealed_versions_can_be_compared() -> None:
    one_version = seal_files({SERVICES: "postgresql: {passwd: a}\n"})
    other = seal_files({SERVICES: "postgresql: {passwd: b}\n"}, one_version)
    (found,) = compare_files(one_version, other)
    assert table(found) == ["changed postgresql.passwd: '<secret>' -> '<secret> (changed)'"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    found = one("a: 1\n", 'a: 2 # \u202e\n"\\e[2J": 1\n')
    assert "\u202e" not in "".join(found.lines)
    assert found.changes[-1].path.isprintable()


def test_an_unreadable_file_is_named() -> None:
    with pytest.raises(SecretError) as caught:
        one("a: 1\n", "a: [\n", "layout.yaml")
    assert caught.value.where == "layout.yaml"


def test_values_for_tables_are_short_and_printable() -> None:
    assert value_text({"a": [1, None]}) == '{"a": [1, null]}'
    assert value_text("x\ny") == "x\\ny"
    assert len(value_text("y" * 1000)) <= 60


def test_a_folder_gives_its_configuration_files_only() -> None:
    files = read_folder(str(ROOT / "examples" / "cluster"))
    assert sorted(file.name for file in files) == ["config.yaml", "layout.yaml", "master.csv", SERVICES, "worker.csv"]
    with pytest.raises(PaictlError, match="contains no configuration file"):
        read_folder(str(ROOT / "examples" / "cluster" / "jobs"))
    with pytest.raises(PaictlError, match="no such file or folder"):
        read_folder("/nowhere")
