"""A value that is made quickly equals the value its class makes."""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from queueing.core.constructors import altering, quick


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeGpu:
    suit: str
    number: int
    note: str | None = None


def test_it_is_the_same_value_of_the_same_class() -> None:
    slow, fast = FakeGpu(suit="hearts", number=7), quick(FakeGpu)(suit="hearts", number=7)
    assert type(fast) is FakeGpu
    assert fast == slow
    assert hash(fast) == hash(slow)
    assert repr(fast) == repr(slow)
    assert replace(fast, note="torn") == FakeGpu(suit="hearts", number=7, note="torn")


def test_it_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        quick(FakeGpu)(suit="hearts", number=7).number = 8  # type: ignore[misc]


def test_a_field_that_is_missing_or_unknown_is_refused() -> None:
    with pytest.raises(TypeError):
        quick(FakeGpu)(suit="hearts")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        quick(FakeGpu)(suit="hearts", number=7, colour="red")  # type: ignore[call-arg]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hand:
    gpus: dict[str, int] = field(default_factory=dict)
    player: str = ""


def test_a_field_whose_default_is_made_each_time_must_be_given() -> None:
    """One default value would be shared by all."""
    assert quick(Hand)(gpus={"hearts": 7}) == Hand(gpus={"hearts": 7})
    with pytest.raises(TypeError):
        quick(Hand)(player="north")


def test_a_changed_value_is_the_one_that_replace_makes() -> None:
    seven = FakeGpu(suit="hearts", number=7)
    eight = altering(FakeGpu)(seven, number=8, note="torn")
    assert type(eight) is FakeGpu
    assert eight == replace(seven, number=8, note="torn")
    assert hash(eight) == hash(replace(seven, number=8, note="torn"))
    assert seven == FakeGpu(suit="hearts", number=7)
    with pytest.raises(FrozenInstanceError):
        eight.number = 9  # type: ignore[misc]
    with pytest.raises(AttributeError):
        altering(FakeGpu)(seven, colour="red")
