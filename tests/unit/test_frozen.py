"""`@frozen` beside the standard library's decorator that it stands for: each assertion holds of both."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from paictl.frozen import frozen, frozen_caching

STANDARD = dataclass(frozen=True, slots=True)
Item = TypeVar("Item")


@frozen
class Point:
    """At the top of a module, as pickle wants it."""

    x: int
    y: int = 2


@pytest.fixture(params=[STANDARD, frozen], ids=["standard", "ours"])
def decorated(request: pytest.FixtureRequest) -> Callable[[type[Any]], type[Any]]:
    found: Callable[[type[Any]], type[Any]] = request.param
    return found


@pytest.fixture
def pod(decorated: Callable[[type[Any]], type[Any]]) -> type[Any]:
    class Pod:
        """A class with each kind of field."""

        kind: ClassVar[str] = "pod"
        name: str
        devices: int = 1
        labels: dict[str, str] = field(default_factory=dict)
        secret: str = field(default="s", repr=False)
        version: int = field(default=0, compare=False)

        @property
        def title(self) -> str:
            return f"{self.kind} {self.name}"

    return decorated(Pod)


def test_arguments_are_fields_in_their_order_with_their_defaults(pod: type[Any]) -> None:
    assert asdict(pod("a")) == {"name": "a", "devices": 1, "labels": {}, "secret": "s", "version": 0}
    assert asdict(pod("a", 2, {"k": "v"}, version=3)) == {
        "name": "a",
        "devices": 2,
        "labels": {"k": "v"},
        "secret": "s",
        "version": 3,
    }
    assert pod("a").labels is not pod("a").labels
    assert pod("a").title == "pod a"
    assert pod.__match_args__ == ("name", "devices", "labels", "secret", "version")


def test_wrong_arguments_are_refused(pod: type[Any]) -> None:
    with pytest.raises(TypeError, match=r"Pod.__init__\(\) missing 1 required positional argument: 'name'"):
        pod()
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        pod("a", size=3)
    with pytest.raises(TypeError, match="missing 1 required"):  # the second time the compiled one refuses
        pod(devices=3)


def test_equal_are_those_of_one_class_with_equal_fields_that_count(pod: type[Any], decorated: Any) -> None:
    assert pod("a") == pod("a", version=7)
    assert pod("a") != pod("a", 2)
    assert pod("a") != ("a", 1, {}, "s", 0)
    heir = type("Heir", (pod,), {"__doc__": "Another class.", "__slots__": ()})
    assert pod("a") != heir("a")
    pair = decorated(type("Pair", (), {"__doc__": "Hashable.", "__annotations__": {"left": "str", "right": "int"}}))
    assert {pair("a", 1): "found"}[pair("a", 1)] == "found"
    assert len({pair("a", 1), pair("a", 1), pair("a", 2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(pod("a"))


def test_it_shows_its_fields_but_no_secrets(pod: type[Any]) -> None:
    assert repr(pod("a", 2)).endswith("Pod(name='a', devices=2, labels={}, version=0)")


def test_nothing_can_be_changed_added_or_deleted(pod: type[Any]) -> None:
    one = pod("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        one.name = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del one.name
    with pytest.raises((FrozenInstanceError, TypeError)):  # the standard one stumbles over its own slots (bpo-46414)
        one.other = 1
    assert not hasattr(one, "__dict__")
    assert one == pod("a")


def test_fields_replace_copies_and_match_work(pod: type[Any]) -> None:
    one = pod("a", labels={"k": "v"})
    assert [each.name for each in fields(one)] == ["name", "devices", "labels", "secret", "version"]
    assert replace(one, devices=4) == pod("a", 4, {"k": "v"})
    assert copy.copy(one) == one
    assert copy.copy(one).labels is one.labels
    assert copy.deepcopy(one) == one
    assert copy.deepcopy(one).labels is not one.labels
    match one:
        case pod(name, devices=1):
            assert name == "a"
        case _:
            pytest.fail("does not match")


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(3))) == Point(3, 2)  # noqa: S301 - our own bytes


def test_a_subclass_has_the_fields_of_both(decorated: Any) -> None:
    class Base:
        """The first fields."""

        name: str
        devices: int = 1

    base = decorated(Base)

    class Heir(base):  # type: ignore[misc,valid-type]
        """One more, and another default."""

        devices: int = 8
        memory: int = 4

    heir = decorated(Heir)
    assert asdict(heir("a")) == {"name": "a", "devices": 8, "memory": 4}
    assert asdict(base("a")) == {"name": "a", "devices": 1}
    assert heir("a") == heir("a", 8, 4)
    assert heir("a") != heir("a", 8, 5)
    assert repr(heir("a", 1, 2)).endswith("Heir(name='a', devices=1, memory=2)")


@pytest.mark.parametrize(("first", "second"), [(frozen, STANDARD), (STANDARD, frozen), (frozen, frozen)])
def test_ours_and_standard_ones_may_be_heirs_of_each_other(first: Any, second: Any) -> None:
    """A user's policy has parameters of its own, and may well be decorated by `dataclass`."""

    class Base:
        """The first field."""

        name: str

    base = first(Base)

    class Heir(base):  # type: ignore[misc,valid-type]
        """One more."""

        devices: int = 8

    heir = second(Heir)
    assert asdict(heir("a")) == {"name": "a", "devices": 8}
    assert heir("a") == heir("a", 8) != heir("a", 9)
    assert len({heir("a"), heir("a", 8)}) == 1
    assert copy.copy(heir("a", 3)) == heir("a", 3)
    for name in ("name", "devices", "other"):
        with pytest.raises((FrozenInstanceError, TypeError)):
            setattr(heir("a"), name, 1)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclass(type("Loose", (base,), {"__doc__": "Not frozen."}))


def test_what_a_class_defines_itself_stays(decorated: Any) -> None:
    class Word:
        """Equal whatever the case, and no list of fields."""

        text: str

        def __eq__(self, other: object) -> bool:
            return self.text.lower() == getattr(other, "text", "").lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

        def __repr__(self) -> str:
            return f"<{self.text}>"

        def __post_init__(self) -> None:
            if not self.text:
                raise ValueError("a word has letters")

    word = decorated(Word)
    assert {word("A"), word("a")} == {word("a")}
    assert repr(word("A")) == "<A>"
    with pytest.raises(ValueError, match="letters"):
        word("")


def test_what_it_cannot_do_it_refuses() -> None:
    @frozen
    class Odd:
        """With a field that is no argument."""

        name: str = field(init=False, default="")

    with pytest.raises(TypeError, match=r"Odd\.name: in a frozen class every field is an argument"):
        Odd()


def test_it_may_have_no_fields_and_may_be_generic(decorated: Any) -> None:
    empty = decorated(type("Empty", (), {"__doc__": "Nothing."}))
    assert empty() == empty()
    assert hash(empty()) == hash(empty())
    assert repr(empty()) == "Empty()"

    class Box(Generic[Item]):
        """Of anything."""

        item: Item

    box = decorated(Box)
    assert box(3) == box(3)


@pytest.mark.parametrize("decorate", [dataclass(frozen=True), frozen_caching], ids=["standard", "ours"])
def test_one_without_slots_may_cache_and_is_as_frozen(decorate: Any) -> None:
    class Text:
        """With something that takes long."""

        words: str
        asked: list[str] = field(default_factory=list, compare=False)

        @cached_property
        def count(self) -> int:
            self.asked.append(self.words)
            return len(self.words.split())

    text = decorate(Text)("a b c")
    assert (text.count, text.count, text.asked) == (3, 3, ["a b c"])
    assert text == replace(text)
    assert copy.copy(text).count == 3
    with pytest.raises(FrozenInstanceError):
        text.words = "d"
