from __future__ import annotations

import copy
import json
from collections.abc import Collection
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from paictl.config.pushing.configfile import ConfigFile
from paictl.config.pushing.merge import Merged, merged_data
from paictl.config.pushing.merge import merge as merge_files
from paictl.config.reading.nodes import KeyPath, parse_dotted, to_data
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml
from paictl.errors import PaictlError
from tests.unit.config.yamltexts import texts


def data_of(text: str) -> Any:
    tree = parse_yaml(Source("text", text))
    assert not tree.fatal, tree.issues
    assert not tree.issues or tree.root is None, tree.issues
    return {} if tree.root is None else to_data(tree.root)


NAME = "services-configuration.yaml"


def merge(old: str, new: str, drop: Collection[KeyPath] = ()) -> Merged:
    return merge_files(ConfigFile(NAME, old), ConfigFile(NAME, new), drop)


def merged(old: str, new: str, *drop: str) -> Merged:
    return merge(dedent(old), dedent(new), [parse_dotted(path) for path in drop])


def paths(found: tuple[tuple[str, ...], ...]) -> list[str]:
    return [".".join(path) for path in found]


def same(one: Any, two: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


def reference(old: Any, new: Any) -> Any:
    """Deep merge, written in the dullest way."""
    if isinstance(old, dict) and old and new is None:
        new = {}
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return copy.deepcopy(new)
    result = copy.deepcopy(new)
    for key in old:
        result[key] = reference(old[key], new[key]) if key in new else copy.deepcopy(old[key])
    return result


def merge_unless_shared(old: str, new: str) -> Merged:
    """The merge of two texts; only one with anchors may be refused."""
    try:
        return merge(old, new)
    except PaictlError as error:
        if "anchors" not in str(error.hint) or "&" not in new:
            raise
        reject()


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(texts("old"), texts("new"))
def test_the_merged_text_holds_the_deep_merge_of_the_data(old: Any, new: Any) -> None:
    (old_text, _, _), (new_text, _, new_comments) = old, new
    outcome = merge_unless_shared(old_text, new_text)
    old_data, new_data = data_of(ended(old_text)), data_of(ended(new_text) if outcome.kept else new_text)
    assert same(data_of(outcome.file.text), reference(old_data, new_data))
    assert same(merged_data(old_data, new_data), reference(old_data, new_data))
    assert all(outcome.file.text.count(comment) >= new_text.count(comment) for comment in new_comments)
    assert sorted(outcome.kept) == sorted(kept_of(old_data, new_data))


def ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def kept_of(old: Any, new: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of what only the old data have."""
    if isinstance(old, dict) and new is None:
        new = {}
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return []
    kept = [(*path, key) for key in old if key not in new]
    return kept + [found for key in old if key in new for found in kept_of(old[key], new[key], (*path, key))]


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(texts("old"), texts("new"))
def test_merging_again_changes_nothing(old: Any, new: Any) -> None:
    once = merge_unless_shared(old[0], new[0])
    assert merge(once.file.text, new[0]).file.text == once.file.text
    assert merge(once.file.text, once.file.text) == Merged(ConfigFile(NAME, once.file.text))


OLD = """\
    # Ports of the services.
    rest-server:
      # chosen by the admin
      server-port: 9186   # as the firewall allows
      jwt-secret: "s"
      # for night shifts
      limits:
        list: 60
        submit: 10

    # grafana came later
    grafana:
      port: 3000
    """


def test_keys_of_the_cluster_stay_with_their_comments_at_any_depth() -> None:
    outcome = merged(
        OLD,
        """\
        rest-server:
            jwt-secret: "t"
            limits:
                submit: 20   # doubled
        # last words
        """,
    )
    assert outcome.file.text == dedent(
        """\
        rest-server:
            jwt-secret: "t"
            limits:
                submit: 20   # doubled
                list: 60
            # chosen by the admin
            server-port: 9186   # as the firewall allows

        # grafana came later
        grafana:
          port: 3000
        # last words
        """
    )
    assert paths(outcome.kept) == ["rest-server.server-port", "rest-server.limits.list", "grafana"]
    assert paths(outcome.changed) == ["rest-server.jwt-secret", "rest-server.limits.submit"]


def test_nothing_to_keep_leaves_the_pushed_bytes_alone() -> None:
    new = "a: 1 # x\r\nb: |\r\n  text"
    outcome = merge("a: 2\n", new)
    assert outcome == Merged(ConfigFile(NAME, new), changed=(("a",),), added=(("b",),))


def test_lists_and_embedded_text_are_replaced_as_a_whole() -> None:
    outcome = merged(
        """\
        hivedscheduler:
          webservice-port: 30096
          config: |
            physicalCluster: {}
            extra: 1
        list: [1, 2]
        """,
        """\
        hivedscheduler:
          config: |
            physicalCluster: {}
        list:
        - 3
        """,
    )
    assert data_of(outcome.file.text) == {
        "hivedscheduler": {"webservice-port": 30096, "config": "physicalCluster: {}\n"},
        "list": [3],
    }
    assert paths(outcome.changed) == ["hivedscheduler.config", "list"]


@pytest.mark.parametrize("empty", ["", " {}", " null", " ~  # nothing yet"])
def test_an_empty_section_keeps_what_the_cluster_has(empty: str) -> None:
    outcome = merged("s:\n   # why\n   a: 1\n   b: 2\n", f"s:{empty}\n# end\nt: 1\n")
    lines = outcome.file.text.splitlines()
    assert lines[1:4] == ["   # why", "   a: 1", "   b: 2"]
    assert data_of(outcome.file.text) == {"s": {"a": 1, "b": 2}, "t": 1}
    assert paths(outcome.kept) == ["s.a", "s.b"]


def test_a_value_takes_the_place_of_a_mapping() -> None:
    outcome = merged("a: {b: 1}\nc: 1\n", "a: text\n")
    assert data_of(outcome.file.text) == {"a": "text", "c": 1}
    assert paths(outcome.changed) == ["a"]


def test_true_and_one_are_not_the_same() -> None:
    assert paths(merged("a: true\nb: 1\nc: '1'\n", "a: 1\nb: 1.0\nc: 1\n").changed) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ("s: {a: 1}\n", "s: {a: 1, b: 'no'}\n"),
        ("s: {a: 1, }\n", "s: {a: 1, b: 'no'}\n"),
        ("s: {a: 1, # one\n  }\n", "s: {a: 1, # one\n  b: 'no'}\n"),
        ("s: {a: 1 # one\n  }\n", "s: {a: 1 # one\n  , b: 'no'}\n"),
        ("{s: {a: 1}}\n", "{s: {a: 1, b: 'no'}}\n"),
        ("{s: {}}\n", "{s: {a: 1, b: 'no'}}\n"),
        ("{s: }\n", "{s: {a: 1, b: 'no'}}\n"),
        ("{s}\n", "{s: {a: 1, b: 'no'}}\n"),
    ],
)
def test_braces_get_the_entry_before_they_close(new: str, text: str) -> None:
    assert merge("s:\n  a: 1\n  b: 'no' # why\n", new).file.text == text


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("one: &o\n  a: 1\ntwo: *o # like one\n", "two.b"),
        ("one: &o {a: 1, b: 2}\nmine: &m\n  two: {a: 1}\n<<: *m\n", "two.b"),
    ],
)
def test_a_section_that_is_written_elsewhere_is_not_changed_there(new: str, said: str) -> None:
    with pytest.raises(PaictlError, match=said) as caught:
        merged("one: {a: 1}\ntwo:\n  b: 2\n", new)
    assert "anchors" in str(caught.value.hint)


def test_an_aliased_section_that_has_all_the_cluster_has_is_left_alone() -> None:
    new = "one: &o\n  a: 1\n  b: 2\ntwo: *o # like one\n"
    assert merged("one: {a: 1}\ntwo:\n  b: 3\n", new).file.text == new


def test_anchors_of_the_cluster_do_not_capture_aliases_of_the_pushed_file() -> None:
    outcome = merged("s:\n  x: &p 1\n  y: *p\n", "o: &p 7\ns:\n  z: 1\nq: *p\n")
    assert data_of(outcome.file.text) == {"o": 7, "s": {"z": 1, "x": 1, "y": 1}, "q": 7}


def test_a_shared_section_that_would_have_to_change_in_one_place_only_is_refused() -> None:
    with pytest.raises(PaictlError) as caught:
        merged("one: {a: 1, b: 2}\ntwo: {a: 1}\n", "one: &o {a: 1}\ntwo: *o\n")
    assert "one.b" in caught.value.message
    assert "anchors" in str(caught.value.hint)


def test_lines_that_a_block_keeps_at_its_end_stay_with_it() -> None:
    outcome = merged("s:\n  k: |+\n    text\n\n\n  m: 1\n", "s:\n  n: |+\n    more\n\nt: 1\n")
    assert data_of(outcome.file.text) == {"s": {"n": "more\n\n", "k": "text\n\n\n", "m": 1}, "t": 1}


def test_windows_line_ends_are_kept() -> None:
    outcome = merge("s:\n  a: |\n    x\n    y\n", "s:\r\n  b: 1\r\n")
    assert outcome.file.text == "s:\r\n  b: 1\r\n  a: |\r\n    x\r\n    y\r\n"


def test_an_empty_push_keeps_everything() -> None:
    assert merge("a: 1\n", "").file.text == "a: 1\n"
    assert merge("a: 1\n", "# nothing").file.text == "# nothing\n\na: 1\n"
    assert merge("", "a: 1\n") == Merged(ConfigFile(NAME, "a: 1\n"), added=())


def test_a_named_key_is_dropped_with_its_comments() -> None:
    outcome = merged(
        OLD, "rest-server: {jwt-secret: x}\n", "rest-server.limits.list", "rest-server.server-port", "grafana"
    )
    assert data_of(outcome.file.text) == {"rest-server": {"jwt-secret": "x", "limits": {"submit": 10}}}
    assert "grafana" not in outcome.file.text
    outcome = merged(OLD, "a: 1\n", "rest-server.server-port")
    assert "chosen" not in outcome.file.text
    assert "# for night shifts" in outcome.file.text


def test_the_last_key_of_a_section_can_be_dropped_and_so_can_one_in_braces() -> None:
    assert data_of(merged(OLD, "a: 1\n", "rest-server", "grafana.port").file.text) == {"a": 1, "grafana": {}}
    assert data_of(merged("s: {a: 1, b: 2}\n", "t: 1\n", "s.a").file.text) == {"s": {"b": 2}, "t": 1}


@pytest.mark.parametrize("path", ["grafana.prot", "nothing", "rest-server.jwt-secret.deeper"])
def test_dropping_what_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(PaictlError, match="the cluster has no key"):
        merged(OLD, "a: 1\n", path)


def test_dropping_what_is_pushed_is_refused() -> None:
    with pytest.raises(PaictlError, match=r"grafana\.port would be both dropped and pushed"):
        merged(OLD, "grafana:\n  port: 1\n", "grafana.port")


def test_a_file_that_is_no_mapping_or_no_yaml() -> None:
    assert merge("a: 1\n", "- 1\n") == Merged(ConfigFile(NAME, "- 1\n"), changed=((),))
    with pytest.raises(PaictlError, match="not readable"):
        merge("a: 1\n", "a: [\n")
    with pytest.raises(PaictlError, match="not readable"):
        merge("a: [\n", "a: 1\n")


def test_blank_lines_behind_a_comment_do_not_pile_up() -> None:
    old = "a:\n  k: |+\n    text\n\n    # behind\n\n\nb: 1\n"
    once = merge(old, "a:\n  c: 1\n\nb: 2\n")
    assert merge(once.file.text, "a:\n  c: 1\n\nb: 2\n").file.text == once.file.text
