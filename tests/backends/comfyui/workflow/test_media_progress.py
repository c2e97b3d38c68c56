"""How far a video has progressed, whatever messages a server and its nodes send."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.comfyui.backend import ComfyUI
from backends.comfyui.progress import Message, MessageData, Tracker, read_message, read_preview
from backends.comfyui.workflow.graph.analysis import planned_steps
from backends.comfyui.workflow.graph.nodes import Graph
from backends.comfyui.workflow.rendering import fill
from queueing.core.requests import Capability, Progress, TextToVideo, Work
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.workflow.graphs import Nodes, ltx, node, prepared, wan
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.samples import examples

KEY = "5bb09fbe-4720-4c6f-9ae7-c6bda740888e"


def filled(nodes: Nodes, steps: int = 20) -> Graph:
    return fill(prepared(nodes), TextToVideo(prompt="a", steps=steps), prefix="p")


def heard(kind: str, **data: Any) -> Message:
    return Message(type=kind, data=MessageData(prompt_id=KEY, **data))


def sampled(tracker: Tracker, sampler: str, steps: int) -> list[Progress]:
    """Return the reports of a sampler's run."""
    told = [tracker.follow(heard("executing", node=sampler))]
    told += [
        tracker.follow(heard("progress", node=sampler, value=n, max=steps))
        for n in range(1, steps + 1)
    ]
    return [each for each in told if each]


def test_two_experts_count_their_steps_together() -> None:
    """The second expert would begin at step 1 again when half of the video is done."""
    tracker = Tracker(KEY, filled(wan()))
    reports = sampled(tracker, "first", 10) + sampled(tracker, "second", 10)
    assert reports[0].step is None
    steps = [report.step for report in reports[1:]]
    assert steps == [*((n, 20) for n in range(1, 11)), *((n, 20) for n in range(10, 21))]
    fractions = [report.fraction for report in reports if report.fraction is not None]
    assert fractions == sorted(fractions)


def test_an_expert_whose_work_is_cached_counts_as_done() -> None:
    """Repeating a video with another ending would seem to begin at the first step."""
    tracker = Tracker(KEY, filled(wan()))
    tracker.follow(heard("execution_cached", nodes=["first"]))
    assert sampled(tracker, "second", 10)[1].step == (11, 20)


def test_a_decoder_does_not_begin_the_steps_again() -> None:
    """A video would go from step 20 of 20 to step 1 of 9 while it is decoded in tiles."""
    tracker = Tracker(KEY, filled(wan()))
    sampled(tracker, "first", 10)
    sampled(tracker, "second", 10)
    assert [report.step for report in sampled(tracker, "decode", 9)] == [None] * 10


def test_two_samplers_may_split_one_schedule() -> None:
    """A graph whose samplers share one number of steps would count it twice, or not at all."""
    nodes = ltx() | {
        "all": node("BasicScheduler", steps=20),
        "split": node("SplitSigmas", sigmas=["all", 0], step=8),
        "first": node("SamplerCustomAdvanced", latent_image=["both", 0], sigmas=["split", 0]),
        "second": node("SamplerCustomAdvanced", latent_image=["first", 0], sigmas=["split", 1]),
    }
    planned = planned_steps(prepared(nodes).nodes)
    assert (planned["first"], planned["second"]) == (8, 12)


def test_a_graph_tells_the_steps_of_its_samplers(subtests: pytest.Subtests) -> None:
    """The total number of steps would grow while a video is made."""
    cases: list[tuple[Nodes, Nodes, int]] = [
        ({"steps": 20, "start_at_step": 0, "end_at_step": 10}, {}, 10),
        ({"steps": 20, "start_at_step": 10, "end_at_step": 10000}, {}, 10),
        ({"steps": 8}, {}, 8),
        ({"sigmas": ["s", 0]}, {"steps": 26}, 26),
        ({"sigmas": ["s", 0]}, {"sigmas": "0.909375, 0.725, 0.421875, 0.0"}, 3),
        ({"sigmas": ["s", 0]}, {"steps": ["other", 0]}, 0),
        ({"sigmas": ["gone", 0]}, {}, 0),
        ({"steps": ["other", 0]}, {}, 0),
    ]
    for inputs, sigmas, steps in cases:
        with subtests.test(steps=steps):
            nodes = ltx() | {"sampler": node("Sampler", latent_image=["both", 0], **inputs)}
            nodes["s"] = node("Schedule", **sigmas)
            nodes["other"] = node("PrimitiveInt", value=4)
            nodes["gone"] = node("Odd", sigmas=7)
            assert planned_steps(prepared(nodes).nodes)["sampler"] == steps


@examples(100, quick=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["first", "second", "decode", "x"]),
            st.integers(-1, 30),
            st.integers(0, 20),
        ),
        max_size=30,
    )
)
def test_no_order_of_messages_makes_progress_fall(order: list[tuple[str, int, int]]) -> None:
    """Progress would fall when a custom node counts differently or messages are missing."""
    tracker, last = Tracker(KEY, filled(wan())), Progress(fraction=0.0, step=(0, 1))
    for name, value, most in order:
        message = read_message(
            json.dumps(
                {
                    "type": "progress",
                    "data": {"prompt_id": KEY, "node": name, "value": value, "max": most},
                }
            )
        )
        report = tracker.follow(message) if message else None
        if report is None:
            continue
        assert report.fraction is not None
        assert last.fraction is not None
        assert last.fraction <= report.fraction <= 1
        if report.step:
            assert last.step
            assert last.step[0] <= report.step[0] <= report.step[1]
            last = report


@given(st.binary(max_size=200))
def test_no_frame_of_any_kind_ends_the_watch(frame: bytes) -> None:
    """Animated previews of custom packs would end the progress of a video, or the bot."""
    read_preview(frame, KEY)
    for kind in (1, 2, 3, 4, 5):
        read_preview(struct.pack(">I", kind) + frame, KEY)
        read_preview(struct.pack(">II", kind, len(frame)) + frame + frame, KEY)


def test_messages_of_custom_packs_are_passed_over(subtests: pytest.Subtests) -> None:
    """One unknown message would end the progress of every attempt."""
    for text in [
        '{"type": "VHS_latentpreview", "data": {"length": 21, "rate": 8, "id": "3"}}',
        '{"type": "VHS_latentpreview", "data": []}',
        '{"type": "progress_state", "data": {"prompt_id": "k", "nodes": {"3": {"value": 1}}}}',
        '{"type": "progress_text", "data": "x"}',
        '{"type": "progress", "data": {"prompt_id": "k", "node": 3, "value": "x", "max": null}}',
        '{"type": "crystools.monitor", "data": {"gpus": []}}',
        "[]",
        "null",
    ]:
        with subtests.test(text=text):
            message = read_message(text)
            assert message is None or Tracker(KEY, filled(wan())).follow(message) is None


def test_a_frame_of_an_animated_preview_is_no_image_of_ours(subtests: pytest.Subtests) -> None:
    """VideoHelperSuite sends frames with an index and a node, labelled as plain previews."""
    for size in [0, 1, 3, 7]:
        with subtests.test(size=size):
            frame = struct.pack(">IIi16p", 1, 1, 3, b"first") + b"\xff\xd8jpeg\xff\xd9"
            assert read_preview(frame, KEY) is None
            assert read_preview(frame[:size], KEY) is None


def videos(folder: Path) -> ModelSpec:
    template = folder / "wan.json"
    template.write_text(json.dumps(wan()))
    return ModelSpec(
        name="wan",
        backends=("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_VIDEO}),
        options={"workflow": str(template)},
    )


VIDEO = Work(key=KEY, request=TextToVideo(prompt="a cat", steps=30, seconds=1))


async def test_a_video_shows_steps_and_stills_while_it_is_made(
    comfy: ComfyUI, fake: FakeComfyUI, tmp_path: Path
) -> None:
    """People would see "waiting" for minutes while their video is made."""
    fake.video, fake.step_s = b"a video", 0.02
    reports: list[Progress] = []
    await comfy.run(videos(tmp_path), VIDEO, reports.append)
    assert [report.step for report in reports if report.step and not report.preview][-1] == (30, 30)
    assert any(report.preview for report in reports)


@pytest.mark.parametrize("old", [False, True], ids=["0.33", "0.3.64"])
async def test_a_video_is_seen_to_begin_without_a_websocket(
    comfy: ComfyUI, fake: FakeComfyUI, tmp_path: Path
) -> None:
    """Without websockets, as behind some proxies, a video would seem to wait until it is done."""
    fake.video, fake.step_s, fake.faults.no_socket = b"a video", 0.02, True
    reports: list[Progress] = []
    await comfy.run(videos(tmp_path), VIDEO, reports.append)
    assert reports == [Progress(fraction=0.0)]
