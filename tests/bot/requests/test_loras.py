"""LoRAs as people write them."""

import pytest

from bot.requests.options import loras_in
from queueing.core.requests import LoraWeight


def test_a_weight_may_follow_each_name() -> None:
    cases: list[tuple[str, tuple[tuple[str, float], ...]]] = [
        ("ink", (("ink", 1.0),)),
        ("ink:0.8", (("ink", 0.8),)),
        ("ink:0.8, video", (("ink", 0.8), ("video", 1.0))),
        ("styles:ink", (("styles:ink", 1.0),)),
        (" , ", ()),
    ]
    for written, read in cases:
        assert loras_in(written) == tuple(LoraWeight(name=name, weight=at) for name, at in read), (
            written
        )


def test_what_no_model_takes_is_refused() -> None:
    for written in ("ink:9", "a,b,c,d,e", "ink:nan"):
        with pytest.raises(ValueError):  # noqa: PT011 - the caller has a sentence of its own
            loras_in(written)
