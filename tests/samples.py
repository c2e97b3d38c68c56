"""How many random samples a test tries: a few in the quick check, all in the thorough one."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

QUICK_PROFILE = "quick"
THOROUGH_PROFILE = "thorough"


def seeds(of: Sequence[int], *, quick: int = 1) -> pytest.MarkDecorator:
    """Give a test its `seeds`: only the first ones in the quick check, all in the thorough one."""
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(of[:quick], id="quick"),
            pytest.param(of[quick:], id="thorough", marks=pytest.mark.thorough),
        ],
    )


def examples(count: int, *, quick: int, steps: int = 50) -> settings:
    """Try this many examples of a property; a state machine takes this many steps in each."""
    is_quick = settings.get_current_profile_name() == QUICK_PROFILE
    return settings(
        max_examples=quick if is_quick else count,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.too_slow],
    )


def in_turn(
    name: str, cases: Iterable[Any], *, of: Callable[[Any], str] = str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a test its cases one after another, each a subtest that is named by `of`.

    As a separate test, a case takes pytest ten milliseconds: for fixtures, reports, and in each
    process that collects it. Use this for cases that need no new fixtures.
    """
    told = [(case.stem if isinstance(case, Path) else of(case), case) for case in cases]
    assert told

    def of_each(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name != name]
        asked = [inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)]
        taken = signature.replace(parameters=[*others, *asked])

        def one_after_another(subtests: pytest.Subtests, **given: Any) -> None:
            for called, case in told:
                with subtests.test(called):
                    test(**given, **{name: case})

        async def awaited(subtests: pytest.Subtests, **given: Any) -> None:
            for called, case in told:
                with subtests.test(called):
                    await test(**given, **{name: case})

        made = wraps(test)(awaited if inspect.iscoroutinefunction(test) else one_after_another)
        vars(made)["__signature__"] = taken
        return made

    return of_each
