"""The single moment most likely to be right, where some who have yet to come may go first; pure.

The mean of a number that is mostly 0 or 1 lies between two moments and may be right at neither.
"""

from math import erf, exp, sqrt

from queueing.core.standings import KEPT_S, KEPT_SHARE

FEW = 3.0  # expected arrivals: of more, the mean is as likely as any other moment
_MOST = 8  # arrivals that are thought of
_STEP_S = 0.5  # between two moments that are compared
_LEAST_SPREAD_S = 0.7
# A mean distance of normal errors is 0.8 of their standard deviation; what is loaded, and what runs
# already, is off by something, too.
_TO_DEVIATION = 1.5


def shift(wait_s: float, expected: float, each_s: float, spread_s: float) -> float:
    """Return by how much later than `wait_s` a promise should be.

    `wait_s` is until the end if none comes first. Those who do, `expected` of them and independent
    of one another, delay it by `each_s` each. Of all moments the one is taken for which a promise
    is most likely to be kept: off by no more than what one allows.
    """
    if expected <= 0.0 or each_s <= 0.0:
        return 0.0
    likely = _poisson(min(expected, FEW))
    deviation_s = max(_LEAST_SPREAD_S, _TO_DEVIATION * spread_s)
    most = int((each_s * (1 + min(expected, FEW)) + KEPT_S) / _STEP_S)
    return max(
        (step * _STEP_S for step in range(most + 1)),
        key=lambda later_s: (_kept(wait_s, later_s, each_s, deviation_s, likely), -later_s),
    )


def _kept(
    wait_s: float, later_s: float, each_s: float, deviation_s: float, likely: list[float]
) -> float:
    """Return how likely a promise of that moment is to be kept."""
    told_s = wait_s + later_s
    least = min(told_s - KEPT_S, told_s / (1 + KEPT_SHARE))
    most = max(told_s + KEPT_S, told_s / (1 - KEPT_SHARE))
    scale = 1 / (deviation_s * sqrt(2))
    found, ends_s = 0.0, wait_s
    for chance in likely:
        found += chance * (erf((most - ends_s) * scale) - erf((least - ends_s) * scale))
        ends_s += each_s
    return found


def _poisson(expected: float) -> list[float]:
    """Return how likely none, one, two and more arrivals are."""
    chances = [exp(-expected)]
    for number in range(1, _MOST):
        chances.append(chances[-1] * expected / number)
    return chances
