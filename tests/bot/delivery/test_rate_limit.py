"""A chat's budget is never exceeded, and final states always get through."""

from hypothesis import given
from hypothesis import strategies as st

from bot.delivery.rate_limit import PlatformRateLimit, RateLimit, patience_s
from bot.platforms.discord.platform import Discord
from bot.platforms.web.platform import Web
from tests.fakes.chat import LIMITS

requests = st.lists(st.tuples(st.floats(0, 30), st.booleans()), min_size=1, max_size=80)


@given(requests)
def test_a_group_never_sees_more_than_its_minute(steps: list[tuple[float, bool]]) -> None:
    """The platform would answer with growing penalties."""
    rate_limit, now, sent = RateLimit(LIMITS, group=True), 0.0, list[float]()
    for pause, final in steps:
        now = max(now + pause, rate_limit.earliest(now + pause, urgent=final))
        rate_limit.begin(now)
        rate_limit.end(now)
        sent.append(now)
    for at in sent:
        assert len([each for each in sent if at <= each < at + 60.0]) <= 20


@given(requests)
def test_an_end_never_waits_longer_than_an_update(steps: list[tuple[float, bool]]) -> None:
    """Results would be delayed by updates of others' places."""
    rate_limit, now = RateLimit(LIMITS, group=True), 0.0
    for pause, final in steps:
        now += pause
        assert rate_limit.earliest(now, urgent=True) <= rate_limit.earliest(now, urgent=False)
        now = max(now, rate_limit.earliest(now, urgent=final))
        rate_limit.begin(now)
        rate_limit.end(now)


@given(requests, st.integers(0, 30))
def test_jobs_about_to_end_keep_room_for_their_results(
    steps: list[tuple[float, bool]], ending: int
) -> None:
    """First messages and updates would use up the minute just before several results come."""
    rate_limit, now, sent = RateLimit(LIMITS, group=True), 0.0, list[float]()
    for pause, urgent in steps:
        now = max(now, rate_limit.earliest(now + pause, urgent=urgent, ending=ending))
        request(rate_limit, now)
        sent.append(now)
    room = max(1, 18 - ending)
    assert len([at for at in sent if at > now - 59.0]) <= room


def test_a_penalty_is_waited_out_and_remembered_for_a_while() -> None:
    """Continuing at the old rate would make the next penalty longer."""
    rate_limit = RateLimit(LIMITS, group=False)
    request(rate_limit, 0.0)
    rate_limit.slow_down(0.0, 30.0)
    assert rate_limit.earliest(1.0, urgent=True) == 30.0
    request(rate_limit, 30.0)
    assert rate_limit.earliest(30.0, urgent=True) == 32.0
    request(rate_limit, 200.0)
    assert rate_limit.earliest(200.0, urgent=True) == 201.0


def test_an_end_does_not_wait_for_every_penalty_before_it() -> None:
    """After six refusals of a second each, a finished image would come 40 s later."""
    rate_limit, now = RateLimit(LIMITS, group=False), 0.0
    for _ in range(6):
        now = rate_limit.earliest(now, urgent=True)
        request(rate_limit, now)
        rate_limit.slow_down(now, 1.0)
    assert rate_limit.earliest(now, urgent=True) <= 12.0
    assert rate_limit.earliest(now, urgent=False) >= now + 8.0


def request(budget: RateLimit | PlatformRateLimit, began_at: float, *, took_s: float = 0.0) -> None:
    budget.begin(began_at)
    budget.end(began_at + took_s)


def test_a_whole_bot_keeps_to_its_second() -> None:
    """Many chats together would exceed the platform's overall limit."""
    overall = PlatformRateLimit(10.0)
    for _ in range(10):
        assert overall.earliest(0.0) == 0.0
        request(overall, 0.0)
    assert overall.earliest(0.5) == 1.0
    assert overall.earliest(5.0) == 5.0


flights = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0, 12), st.floats(0, 1), st.booleans()),
    min_size=2,
    max_size=60,
)


@given(flights)
def test_no_window_of_the_platform_overflows_however_long_requests_are_under_way(
    steps: list[tuple[float, float, float, bool]],
) -> None:
    """A stalled process sends at once what it had spaced, and the platform counts arrivals."""
    rate_limit, now = RateLimit(LIMITS, group=False), 0.0
    landing: list[float] = []
    arrived: list[float] = []
    for pause, took_s, share, burst in steps:
        now += pause
        while (at := _landed(rate_limit, landing, now, burst=burst)) > now:
            now = min([at, *landing])
        rate_limit.begin(now)
        landing.append(now + took_s)
        arrived.append(now + share * took_s)
    for at in arrived:
        within = [each for each in arrived if at <= each < at + LIMITS.burst * LIMITS.chat_every_s]
        assert len(within) <= LIMITS.burst


def _landed(rate_limit: RateLimit, landing: list[float], now: float, *, burst: bool) -> float:
    for at in sorted(landing):
        if at <= now:
            rate_limit.end(at)
            landing.remove(at)
    return rate_limit.earliest(now, urgent=True, burst=burst)


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 12), st.booleans()), max_size=60))
def test_an_upload_that_was_answered_counts_like_any_request(
    steps: list[tuple[float, float, bool]],
) -> None:
    """A result would count as two requests, and places in the queue would be shown late."""
    uploading, writing, now = RateLimit(LIMITS, group=True), RateLimit(LIMITS, group=True), 0.0
    for pause, took_s, burst in steps:
        now = uploading.earliest(now + pause, urgent=True, burst=burst)
        for rate_limit in (uploading, writing):
            rate_limit.begin(now, upload=rate_limit is uploading)
        began_at, now = now, now + took_s
        uploading.end(now, upload_from=began_at)
        writing.end(now)
        for each in (True, False):
            expected = writing.earliest(now, urgent=True, burst=each)
            assert uploading.earliest(now, urgent=True, burst=each) == expected


def test_others_need_not_wait_for_an_upload() -> None:
    """A chat would be blocked for the minutes that a video takes."""
    rate_limit = RateLimit(LIMITS, group=False)
    rate_limit.begin(0.0, upload=True)
    assert rate_limit.earliest(0.0, urgent=True) == LIMITS.chat_every_s
    assert rate_limit.earliest(30.0, urgent=True) == 30.0


def test_the_head_of_a_line_is_shown_more_promptly() -> None:
    """Those who are next would see outdated places, or those at the end use up the budget."""
    waits = [patience_s(position, 500) for position in (1, 10, 11, 12, 50, 5000)]
    assert waits == sorted(waits)
    assert waits[2] < 15.0 < waits[3]


def test_the_page_is_told_of_a_new_place_at_once() -> None:
    """Although its edits cost nothing, the page would show places that are eight seconds old."""
    page, chat = RateLimit(Web.limits, group=False), RateLimit(LIMITS, group=False)
    assert page.patience_s(3, 500) == 0.0 < chat.patience_s(3, 500)
    assert page.patience_s(50, 500) < chat.patience_s(50, 500)


@given(st.lists(st.floats(0, 8), min_size=1, max_size=80))
def test_updates_of_a_group_are_spread_and_leave_room_for_news(pauses: list[float]) -> None:
    """Places would use up the minute, and news of a failed load have to wait for the next."""
    rate_limit, now = RateLimit(LIMITS, group=True), 0.0
    for pause in pauses:
        now = max(now + pause, rate_limit.earliest(now + pause, urgent=False))
        rate_limit.begin(now)
        rate_limit.updated(now)
        rate_limit.end(now)
    assert rate_limit.earliest(now, urgent=False, soon=True) <= now + LIMITS.chat_every_s


def test_news_of_an_old_message_wait_where_its_platform_bounds_such_edits() -> None:
    """Discord answers too many edits of old messages with penalties."""
    rate_limit = RateLimit(Discord.limits, group=False)
    assert rate_limit.news_gap_s(None) < rate_limit.edit_gap_s(None)
    assert rate_limit.news_gap_s(4000.0) == rate_limit.edit_gap_s(4000.0) >= 60.0
