"""Recorded sessions of a real ComfyUI 0.33: what is read from its messages and answers."""

import base64
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.comfyui.answers import (
    Ended,
    ServerFile,
    Stage,
    read_ended,
    read_job,
    read_newest,
    read_queue,
    read_running,
    read_stats,
    read_upload,
)
from backends.comfyui.errors import accepted_in_part, answered, failure, refusal, refused_prompt
from backends.comfyui.progress import Message, Tracker, read_message, read_preview
from backends.comfyui.workflow.graph.analysis import Medium
from backends.comfyui.workflow.graph.nodes import Graph, Node
from backends.comfyui.workflow.template import Template
from backends.common.http_replies import HttpFailed, HttpRefused, Redirected
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    ModelCrashed,
    OutOfMemory,
    Rejected,
    ShortOfMemory,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from queueing.core.requests import Progress, TextToImage
from tests.samples import examples
from tests.told import words

if TYPE_CHECKING:
    from pydantic import JsonValue

RECORDED = Path(__file__).parents[1] / "recorded" / "comfyui"
SESSIONS = sorted(path.stem for path in RECORDED.glob("job_*.jsonl"))
KEY = "11111111-1111-4111-8111-111111111111"


def rows(session: str) -> list[dict[str, Any]]:
    text = (RECORDED / f"{session}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def posted(session: str) -> list[tuple[str, Graph]]:
    """Return the prompts of a session that were accepted, with their ids."""
    return [
        (row["body"]["prompt_id"], graph(row["request"]["prompt"]))
        for row in rows(session)
        if row.get("path") == "/prompt" and row["status"] == 200
    ]


def graph(nodes: dict[str, Any]) -> Graph:
    return {
        key: Node(class_type=node["class_type"], inputs=node["inputs"])
        for key, node in nodes.items()
    }


def workflow(nodes: Graph) -> Template:
    return Template(
        name="own.json",
        nodes=nodes,
        placeholders=frozenset({"prompt"}),
        defaults={},
        saves=(),
        medium=Medium.IMAGE,
        needs=frozenset(),
    )


def messages(session: str) -> list[Message]:
    heard = [row["msg"] for row in rows(session) if row.get("dir") == "ws" and "msg" in row]
    return [message for msg in heard if (message := read_message(json.dumps(msg)))]


def progress(session: str, key: str, nodes: Graph) -> list[Progress]:
    tracker = Tracker(key, nodes)
    return [told for message in messages(session) if (told := tracker.follow(message))]


def test_progress_only_ever_grows(subtests: pytest.Subtests) -> None:
    """People would see the progress of their image go backwards."""
    for session in SESSIONS:
        with subtests.test(session=session):
            for key, nodes in posted(session):
                fractions = [told.fraction or 0.0 for told in progress(session, key, nodes)]
                assert fractions
                assert fractions == sorted(fractions)
                assert 0 <= fractions[0] <= fractions[-1] <= 1


def test_only_the_attempts_own_end_ends_it(subtests: pytest.Subtests) -> None:
    """A job's result would be fetched before its history is written, or never."""
    for session in SESSIONS:
        with subtests.test(session=session):
            heard = messages(session)
            for key, _ in posted(session):
                assert sum(message.ends(key) for message in heard) == 1
            assert not any(message.ends(KEY) for message in heard)


def test_steps_of_the_sampler_are_told() -> None:
    """The status message could not say "step 2/4"."""
    for session in ("job_sd15_progress_previews_event4", "job_flux_dev"):
        key, nodes = posted(session)[0]
        steps = [told.step for told in progress(session, key, nodes) if told.step]
        assert steps == [(number, steps[-1][1]) for number in range(1, steps[-1][1] + 1)]


def test_labelled_previews_are_taken_and_others_dropped() -> None:
    """People could be shown pieces of other people's images."""

    def previews(session: str) -> list[bytes]:
        frames = [base64.b64decode(r["binary"]["b64"]) for r in rows(session) if "binary" in r]
        assert frames
        keys = [key for key, _ in posted(session)]
        found = [read_preview(frame, key) for frame in frames for key in keys]
        assert not any(read_preview(frame, KEY) for frame in frames)
        return [preview.data for preview in found if preview]

    shown = previews("job_sd15_progress_previews_event4")
    assert shown
    assert all(data.startswith(b"\xff\xd8") for data in shown)
    assert previews("job_sd15_progress_previews_event1") == []


@given(frame=st.binary() | st.binary().map(lambda data: struct.pack(">II", 4, 9) + data))
def test_any_frame_can_be_read(frame: bytes) -> None:
    """A frame of a new kind would end the watch."""
    assert read_preview(frame, KEY) is None


@examples(100, quick=25)
@given(text=st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_message_can_be_read(text: str) -> None:
    """A message of a new kind would end the watch."""
    assert read_message(text) is None


def history(session: str) -> tuple[str, Ended]:
    row = next(row for row in rows(session) if row.get("path", "").startswith("/history/"))
    key = row["path"].rpartition("/")[2]
    ended = read_ended(row["body"], key)
    assert ended is not None
    (newest,) = read_newest(row["body"])
    assert newest[0].id == key
    return key, ended


def test_kept_files_are_told_from_previews() -> None:
    """People would get the preview, or nothing."""
    _, ended = history("job_ok_saveimage_and_preview")
    assert [file.type for file in ended.files] == ["output"]
    assert ended.failure is None
    assert not ended.interrupted


def test_an_interrupt_is_told_from_a_failure() -> None:
    """A cancelled job would count as the model's failure."""
    assert history("job_interrupted")[1] == Ended(interrupted=True)


def test_out_of_memory_is_told_from_other_failures() -> None:
    """Nothing would be unloaded, or everything because of one bad setting."""
    for session, kind in (("job_error_oom", OutOfMemory), ("job_error_runtime", Rejected)):
        _, ended = history(session)
        assert ended.failure is not None
        error = failure(ended.failure, workflow(posted(session)[0][1]))
        assert type(error) is kind
        assert "CUDA" not in words(error)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Rejected),
        (403, UnknownFailure),
        (413, Rejected),
        (422, Rejected),
        (429, Busy),
        (500, UnknownFailure),
        (503, UnknownFailure),
    ],
)
def test_a_prompt_that_is_refused_takes_no_server_from_anybody(
    status: int, error: type[BackendError]
) -> None:
    """A proxy's refusal, or one provoked by a person's prompt, would mark the server as down."""
    said = '{"error": "out of memory: the model does not exist, context length"}'
    for body in (said, "<html>out of memory</html>", ""):
        if status in {429, 500, 503}:
            with pytest.raises(error), answered():
                raise HttpFailed("", status=status, body=body)
        else:
            refused = HttpRefused("", status=status, body=body)
            asked = TextToImage(prompt="out of memory")
            mapped = refused_prompt(refused, workflow({}), asked)
            assert isinstance(mapped, error if body != said or status != 400 else BadModel)


def test_a_prompt_that_is_sent_elsewhere_marks_the_server_as_away() -> None:
    """A person would be told that the server refuses the prompt."""
    with pytest.raises(Unavailable, match="it redirects"), answered():
        raise Redirected("it redirects to /login", status=302, body="<a href>")


def test_failures_of_a_node_call_for_the_right_reaction(subtests: pytest.Subtests) -> None:
    """A faulty server would go on failing jobs, or a bad job would be retried forever."""
    cases: list[tuple[str, str, type[Exception]]] = [
        ("torch.cuda.OutOfMemoryError", "", OutOfMemory),
        ("MemoryError", "", ShortOfMemory),
        ("RuntimeError", "DefaultCPUAllocator: not enough memory", ShortOfMemory),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered", ModelCrashed),
        ("ValueError", "/srv/comfy/x.py is bad", Rejected),
        ("ValueError", "bad prompt: CUDA out of memory", Rejected),
        ("RuntimeError", "bad prompt: CUDA error: out of memory, illegal memory access", Rejected),
        ("RuntimeError", "CUDA out of memory said a caller", Rejected),
        ("RuntimeError", "Allocation on device said a caller", Rejected),
        ("RuntimeError", "Allocation on device 0 would exceed allowed memory. …", OutOfMemory),
    ]
    for kind, message, error in cases:
        with subtests.test(kind=kind, message=message):
            _, ended = history("job_error_runtime")
            assert ended.failure is not None
            failed = ended.failure.model_copy(
                update={"exception_type": kind, "exception_message": message}
            )
            mapped = failure(failed, workflow({}))
            assert type(mapped) is error
            assert "/srv" not in words(mapped)


def validation(case: str) -> Any:
    return next(row["body"] for row in rows("prompt_validation_errors") if row["case"] == case)


def test_refusals_are_blamed_on_the_configuration_or_on_the_request() -> None:
    """People would be told to try again what can never work, or not to try what could."""
    nodes = graph(
        {
            "3": {"class_type": "KSampler", "inputs": {"steps": "{{steps:4}}", "cfg": 1000}},
            "1": {"class_type": "LoadImage", "inputs": {"image": "{{image}}"}},
        }
    )
    own = workflow(nodes)
    plain, steps = TextToImage(prompt="a"), TextToImage(prompt="a", steps=1)
    for case in ("unknown node", "missing checkpoint", "no outputs", "prompt_id not uuid"):
        error = refusal(validation(case), own, plain)
        assert type(error) is BadModel, case
        assert "tell the operator" in words(error)
    assert "missing.safetensors" in str(refusal(validation("missing checkpoint"), own, plain))
    several = validation("several errors in one node")
    assert type(refusal(several, own, plain)) is BadModel
    asked = refusal(several, own, steps)
    assert type(asked) is Rejected
    assert "number of steps" in words(asked)
    image = refusal(validation("LoadImage missing file"), own, plain)
    assert type(image) is Rejected
    assert "image" in words(image)


def test_a_prompt_accepted_in_part_is_noticed() -> None:
    """A job with a broken output would wait for an image that never comes."""
    assert accepted_in_part(validation("one good output, one bad"))
    assert not accepted_in_part({"prompt_id": KEY, "number": 1, "node_errors": {}})
    assert accepted_in_part("?")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["status", "queue_running", "queue_pending", "prompt", "outputs", "messages", KEY]
            ),
            inner,
        )
    ),
)


@examples(100, quick=25)
@given(body=JSON)
def test_no_answer_of_a_server_can_crash_us(body: Any) -> None:
    """A broken server would end in a traceback instead of a retry."""
    for read in (
        read_job,
        lambda value: read_queue(value, KEY),
        lambda value: read_ended(value, KEY),
        read_newest,
        read_running,
        read_stats,
        read_upload,
    ):
        try:
            read(body)
        except UnreadableAnswer:
            continue
    refusal(body, workflow({}), TextToImage(prompt="a"))
    accepted_in_part(body)


def test_the_queue_tells_where_an_attempt_is() -> None:
    """Jobs on an old server would be regarded as lost while they wait."""
    item: JsonValue = [3, KEY, {"1": {"class_type": "A", "inputs": {"x": "a.ckpt"}}}, {}, []]
    assert read_queue({"queue_running": [item], "queue_pending": []}, KEY) is Stage.RUNNING
    assert read_queue({"queue_running": [], "queue_pending": [item]}, KEY) is Stage.WAITING
    assert read_queue({"queue_running": [], "queue_pending": []}, KEY) is None
    running = read_running({"queue_running": [item], "queue_pending": []})
    assert running is not None
    assert running.marks == {("x", "a.ckpt"), ("class_type", "A")}


def test_what_counts_its_steps_takes_most_of_the_time() -> None:
    """A workflow that counts its own steps would show an empty bar until it is done."""
    nodes = {
        "1": Node(class_type="Own", inputs={}),
        "2": Node(class_type="Save", inputs={"images": ["1", 0]}),
    }
    tracker = Tracker(KEY, nodes)
    told = {"prompt_id": KEY, "node": "1", "value": 58, "max": 60}
    progress = tracker.follow(Message.model_validate({"type": "progress", "data": told}))
    assert progress is not None
    assert progress.step == (58, 60)
    assert progress.fraction is not None
    assert progress.fraction > 0.9


def test_names_of_files_are_given_as_the_server_wants_them() -> None:
    """A workflow would not find the image uploaded for it."""
    assert read_upload({"name": "a (1).png", "subfolder": "usher", "type": "input"}) == (
        "usher/a (1).png"
    )
    assert ServerFile(filename="a.png").model_dump() == {
        "filename": "a.png",
        "subfolder": "",
        "type": "output",
    }
