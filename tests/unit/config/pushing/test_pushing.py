from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from paictl.config.pushing import configfile
from paictl.config.pushing.configfile import of_texts
from paictl.config.pushing.push import PushResult, of_services, read_folder, seal_files
from paictl.config.pushing.push import prepare_push as prepare
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_bytes
from paictl.config.secrets import sealing as secrets
from paictl.errors import PaictlError
from tests.conftest import ROOT

SERVICES = "services-configuration.yaml"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COST", (4, 1, 1))


def prepare_push(pushed: Mapping[str, str], stored: Mapping[str, str], drop: Iterable[str] = ()) -> PushResult:
    return prepare(of_texts(pushed), of_texts(stored), drop)


STORED = seal_files(
    {
        SERVICES: "rest-server:\n  jwt-secret: GEHEIM1\n  # by hand\n  server-port: 9186\ngrafana: {port: 3000}\n",
        "worker.csv": "w1,10.0.0.1\n",
        "layout.yaml": "machine-sku: {}\ngrafana: {}\n",
    }
)


def test_a_push_keeps_what_it_does_not_mention_and_seals_what_it_does() -> None:
    push = prepare_push({SERVICES: "rest-server:\n  jwt-secret: GEHEIM2\n", "worker.csv": "w2,10.0.0.2\n"}, STORED)
    assert "GEHEIM" not in repr(push)
    assert "  # by hand\n  server-port: 9186\n" in push.files[SERVICES].text
    assert push.files["worker.csv"].text == "w2,10.0.0.2\n"
    assert push.files["layout.yaml"].text == STORED["layout.yaml"]
    assert push.merged[SERVICES].kept == (("rest-server", "server-port"), ("grafana",))
    assert [change.path for change in push.differences[1].changes] == ["rest-server.jwt-secret"]


def test_pushing_the_same_again_changes_nothing() -> None:
    clear = {SERVICES: "rest-server:\n  jwt-secret: GEHEIM1\n  # by hand\n  server-port: 9186\ngrafana: {port: 3000}\n"}
    assert not prepare_push(clear, STORED).changes
    assert not prepare_push(STORED, STORED).changes
    assert prepare_push(clear, STORED).files == of_texts(STORED)


def test_a_pulled_file_that_is_edited_and_pushed_keeps_its_secrets() -> None:
    push = prepare_push({SERVICES: STORED[SERVICES].replace("9186", "9187")}, STORED)
    assert [change.path for change in push.differences[1].changes] == ["rest-server.server-port"]


def test_keys_are_dropped_by_name_and_by_file_where_the_name_is_not_enough() -> None:
    pushed = {SERVICES: "rest-server: {}\n"}
    assert "server-port" not in prepare_push(pushed, STORED, ["rest-server.server-port"]).files[SERVICES].text
    assert "grafana" not in prepare_push(pushed, STORED, [f"{SERVICES}:grafana"]).files[SERVICES].text
    for word, message in (
        ("grafana", "is in layout.yaml and services-configuration.yaml"),
        ("pylon", "is in no file of the cluster"),
        ("layout.yaml:grafana", "cannot be dropped"),
    ):
        with pytest.raises(PaictlError) as caught:
            prepare_push(pushed, dict(sorted(STORED.items())), [word])
        assert message in str(caught.value)


def test_the_first_push_seals_everything() -> None:
    files = {file.name: file for file in read_folder(str(ROOT / "examples" / "cluster"))}
    push = prepare(files, {})
    assert push.changes
    assert "correct-horse" not in repr(push)
    assert {difference.what for difference in push.differences} == {"added"}


def test_what_was_stored_in_clear_is_sealed_when_it_is_kept() -> None:
    push = prepare_push({SERVICES: "pylon: {port: 80}\n"}, {SERVICES: "rest-server:\n  jwt-secret: GEHEIM1\n"})
    assert "GEHEIM" not in repr(push)


def test_service_mode_takes_layout_and_service_settings() -> None:
    files = {file.name: file for file in read_folder(str(ROOT / "examples" / "cluster"))}
    assert sorted(of_services(files)) == ["layout.yaml", SERVICES]


def test_a_push_reads_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[tuple[str, str]] = Counter()

    def counting(name: str, data: bytes, kind: FileKind | None = None) -> list[Document]:
        reads[name, data.decode()] += 1
        return load_bytes(name, data, kind)

    folder = ROOT / "examples" / "cluster"
    texts = {name: (folder / name).read_text() for name in ("config.yaml", "layout.yaml", SERVICES, "worker.csv")}
    stored = seal_files({**texts, SERVICES: "pylon: {port: 80}\n" + texts[SERVICES]})
    monkeypatch.setattr(configfile, "load_bytes", counting)
    push = prepare_push(texts, stored)
    assert push.merged[SERVICES].kept == (("pylon",),)
    files = Counter((*texts.items(), *stored.items()))  # one in the folder and in the cluster counts twice
    assert {key: reads[key] for key in files} == files
