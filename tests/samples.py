"""How much of what is random a test tries: a few samples in the quick check, all in the thorough one."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings

QUICK_PROFILE = "quick"
THOROUGH_PROFILE = "thorough"


def seeds(of: Sequence[int], *, quick: int = 1) -> pytest.MarkDecorator:
    """Give a test its `seeds`: in the quick check the first ones alone, in the thorough one all."""
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(of[:quick], id="quick"),
            pytest.param(of[quick:], id="thorough", marks=pytest.mark.thorough),
        ],
    )


def examples(count: int, *, quick: int, steps: int = 50) -> settings:
    """Try so many examples of a property; a machine of states takes so many steps in each."""
    is_quick = settings.get_current_profile_name() == QUICK_PROFILE
    return settings(
        max_examples=quick if is_quick else count,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.too_slow],
    )
