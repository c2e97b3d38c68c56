"""The demo's images show what the prompt names."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.demo.painting import Painting
from backends.demo.scene import MOST, Ground, Light, Scene, scene
from backends.demo.shapes import COLOURS
from backends.demo.things import BY_WORD, SIGN, THINGS
from tests.samples import in_turn


def shown(prompt: str, seed: int = 1) -> Scene:
    return scene(prompt, random.Random(seed))


def names(prompt: str) -> set[str]:
    """Return, for each thing of a scene, the first word of the prompt that names it."""
    things = [item.thing for item in shown(prompt).items]
    return {word for word in prompt.lower().split() for each in things if word in each.words}


@pytest.mark.parametrize(
    "prompt", ["a cat and a castle", "fox beside tree", "ein Hund und eine Katze", "rocket moon"]
)
def test_a_scene_has_what_its_prompt_names(prompt: str) -> None:
    """A person would try the demo with words and see none of them."""
    assert names(prompt) == {word for word in prompt.lower().split() if word in BY_WORD}


def test_colours_and_numbers_belong_to_the_thing_they_stand_before() -> None:
    items = shown("three blue cats and a green house").items
    assert sorted(item.colour for item in items) == ["blue", "blue", "blue", "green"]


def test_somebody_in_a_boat_sits_in_it_and_wears_the_hat() -> None:
    (boat,) = shown("a cat in a boat").items
    assert boat.rider is not None
    assert "cat" in boat.rider.thing.words
    (robot,) = shown("a robot with a purple hat").items
    assert robot.hat == "purple"


def test_light_and_ground_follow_the_words() -> None:
    assert shown("a fox in the snow at night").light is Light.NIGHT
    assert shown("a fox in the snow at night").ground is Ground.SNOW
    assert shown("a whale").ground is Ground.SEA
    assert shown("rocket in space").ground is Ground.NONE


def test_what_nobody_has_drawn_stands_on_a_sign() -> None:
    """The demo would show an image unrelated to the prompt."""
    (item,) = shown("a quokka").items
    assert item.thing is SIGN
    assert item.label == "quokka"


@in_turn("thing", THINGS, of=lambda thing: min(thing.words))
def test_every_thing_can_be_drawn_in_each_of_its_colours(thing: object) -> None:
    """A prompt would fail for a colour that does not exist."""
    (known,) = [each for each in THINGS if each is thing]
    for colour in known.colours:
        assert colour in COLOURS
    painting = Painting(f"a {min(known.words)}", 1, (96, 64))
    before = painting.unlabelled()
    for step in range(3):
        painting.paint(step, 3)
    assert painting.unlabelled() != before


@given(st.text(max_size=200), st.integers(0, 99))
def test_any_prompt_makes_a_scene_inside_the_image(prompt: str, seed: int) -> None:
    """A prompt would end in an error, or in things outside the image."""
    items = shown(prompt, seed).items
    assert len(items) <= MOST
    assert all(0 <= item.x <= 1 and 0 < item.y <= 1 for item in items)
