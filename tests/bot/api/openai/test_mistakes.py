"""What a program is told about a field of the wrong kind, in each type of record."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import TypeAdapter, ValidationError

from bot import api
from bot.api.jobs.records import JobRequest
from bot.api.openai.records import ClientRecord, mistake, wrong

WRONG: tuple[Any, ...] = (
    5, True, "x", "", [], ["x"], [5], [[]], [{}], {}, {"x": 1}, {"type": "x"}, {"type": 5},
    [{"type": "file"}], [{"type": "text"}], {"type": "function"}, [{"type": "image_url"}],
)  # fmt: skip
PYDANTICS = re.compile(
    r"\[|tagged-union|function-|constrained|union_tag|discriminator|tuple|Input should be a valid"
    r"|instance of|dictionary|Client[A-Z]|\bNone\b|_type\b|'"
)


def records() -> list[type[ClientRecord]]:
    """Return every type of record that clients send, found by searching the modules."""
    for module in pkgutil.walk_packages(api.__path__, f"{api.__name__}."):
        importlib.import_module(module.name)
    found, left = [], [ClientRecord]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        found += [kind] if kind.model_fields else []
    return sorted(set(found), key=lambda kind: kind.__qualname__)


def has_kinds(annotation: Any) -> bool:
    """Return whether a field may be of several kinds, or holds something that may."""
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return has_kinds(inner[0])
    several = get_origin(annotation) in {Union, UnionType}
    return (several and len([each for each in inner if each is not NoneType]) > 1) or any(
        has_kinds(each) for each in inner if each is not ...
    )


def mistakes(kind: Any, name: str) -> Iterator[tuple[Any, ValidationError]]:
    reader = TypeAdapter(kind)
    for value in WRONG:
        try:
            reader.validate_python({name: value})
        except ValidationError as error:
            of_it = [each for each in error.errors() if name in each["loc"][:2]]
            if of_it:
                yield value, ValidationError.from_exception_data(error.title, of_it)  # type: ignore[arg-type]


def test_every_mistake_is_told_in_plain_words(subtests: pytest.Subtests) -> None:
    """A developer would look for a field `content.str`, and never learn what belongs there."""
    tried = 0
    kinds: list[Any] = [*records(), JobRequest]
    for kind in kinds:
        fields = {"images", "messages"} if kind is JobRequest else {
            name for name, field in kind.model_fields.items() if has_kinds(field.annotation)
        }  # fmt: skip
        for name in sorted(fields):
            for value, error in mistakes(kind, name):
                with subtests.test(f"{kind} {name} {value!r}"):
                    path, sentence = mistake(error, kind)
                    assert not PYDANTICS.search(sentence), sentence
                    assert path[0] == name
                    assert exists({name: value}, path[:-1]), path
                    tried += 1
    assert tried > 50


def exists(data: Any, path: tuple[Any, ...]) -> bool:
    """Return whether a request has what a path names."""
    for step in path:
        if not isinstance(data, list if isinstance(step, int) else dict):
            return False
        data = data[step]
    return True


TOLD: tuple[tuple[dict[str, Any], str, str], ...] = (
    (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
        "messages.0.content.0.type",
        (
            "messages.0.content.0.type: must be one of “text”, “input_text”, “output_text”,"
            " “image_url”, “refusal”, not “file”: send a text file to /v1/responses, as input_file."
        ),
    ),
    (
        {"messages": [{"role": "user", "content": 5}]},
        "messages.0.content",
        "messages.0.content: must be a string, or an array.",
    ),
    (
        {"tool_choice": "maybe"},
        "tool_choice",
        "tool_choice: must be “none”, “auto” or “required”, or an object.",
    ),
    (
        {"tool_choice": {"type": "web_search"}},
        "tool_choice.type",
        "tool_choice.type: must be “function”.",
    ),
    *(
        (
            {**tools, "tool_choice": {"type": "function", "function": {"name": "z"}}},
            "tool_choice",
            "tool_choice: names the function “z”, which is not among the tools.",
        )
        for tools in (
            {},
            {"tools": None},
            {"tools": [{"type": "function", "function": {"name": "a"}}]},
            {"tools": [{"type": "custom", "custom": {"name": "z"}}]},
        )
    ),
    (
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        "tool_choice",
        "tool_choice: is “required”, but there is no function to call.",
    ),
    ({"stop": ["a", 5]}, "stop.1", "stop.1: must be a string."),
    ({"temperature": "hot"}, "temperature", "temperature: must be a number."),
)


def test_a_mistake_names_the_part_and_the_way(subtests: pytest.Subtests) -> None:
    """The developer has only this sentence to find the mistake."""
    chat = next(kind for kind in records() if kind.__name__ == "ChatCompletions")
    usual = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    for more, param, sentence in TOLD:
        with subtests.test(param):
            with pytest.raises(ValidationError) as caught:
                chat.model_validate(usual | more)
            error = wrong(caught.value, chat)
            assert (error.param, error.message) == (param, sentence)


def test_a_field_or_kind_by_another_name_is_told_what_it_is_called() -> None:
    """A program that says `picture` would have to search the documentation."""
    told = []
    for body in ({"kind": "film", "prompt": "x"}, {"kind": "image", "prompt": "x", "pictures": []}):
        with pytest.raises(ValidationError) as error:
            TypeAdapter(JobRequest).validate_python(body)
        told.append(mistake(error.value, JobRequest)[1])
    assert told[0].endswith("not “film”: it is called “video”")
    assert told[1] == "it is called “images”"
