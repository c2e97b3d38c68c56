"""Graphs as people export and write them: wrapped, in circles, deep, with nodes of custom packs."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.comfyui.workflow.graph.analysis import planned_steps
from backends.comfyui.workflow.graph.edits import needed_files, without
from backends.comfyui.workflow.graph.nodes import Graph, Node, as_json, link_of
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.rendering import fill, warm_up
from backends.comfyui.workflow.template import prepare
from queueing.core.errors import BadModel, Rejected
from queueing.core.requests import LoraWeight, TextToImage, TextToVideo
from tests.backends.comfyui.workflow.graphs import node, prepared, references, wan
from tests.samples import examples

VIDEO = TextToVideo(prompt="a", seconds=2)


def parsed(data: Any) -> Graph:
    return parse_workflow(json.dumps(data), name="own.json")


def test_a_graph_may_come_as_clients_send_it() -> None:
    """A workflow copied from another program's request would have to be edited by hand."""
    assert parsed({"client_id": "a", "prompt": wan(), "extra_data": {}}) == parsed(wan())
    with pytest.raises(BadModel, match="Export"):
        parsed({"prompt": {"nodes": [], "links": []}})


def test_a_graph_in_a_circle_is_refused(subtests: pytest.Subtests) -> None:
    """The start would hang, and so would a server's worker."""
    for length in [1, 2, 50]:
        with subtests.test(length=length):
            nodes = wan(**{
                f"r{n}": node("ReferenceLatent", conditioning=[f"r{(n + 1) % length}", 0], latent=["p", 0])
                for n in range(length)
            })  # fmt: skip
            nodes["p"] = node("LoadImage", image="{{image}}")
            with pytest.raises(BadModel, match=r"node r\d+: depends on itself"):
                parsed(nodes)


def test_deep_values_are_read_or_refused(subtests: pytest.Subtests) -> None:
    """A file could crash the bot when it starts."""
    for depth in [100, 400, 900]:
        with subtests.test(depth=depth):
            deep: Any = "{{prompt}}"
            for _ in range(depth):
                deep = [deep]
            try:
                own = prepared(wan(odd=node("Odd", x=deep)))
                fill(own, VIDEO, prefix="p")
            except BadModel as error:
                assert "not JSON" in str(error) or "deep" in str(error)  # noqa: PT017  # either is right


def test_a_long_chain_is_cut_in_time() -> None:
    """A graph of thousands of nodes would delay every start by minutes."""
    nodes = references(())
    nodes["p"] = node("LoadImage", image="{{image}}")
    names = [f"r{n}" for n in range(3000)]
    chain = dict(zip(names, ["text", *names], strict=False))
    for name in random.Random(7).sample(names, len(names)):
        nodes[name] = node("ReferenceLatent", conditioning=[chain[name], 0], latent=["p", 0])
    nodes["sampler"]["inputs"]["positive"] = [names[-1], 0]
    own = prepared(nodes)
    graph = fill(own, TextToImage(prompt="a"), prefix="p")
    assert graph["sampler"].inputs["positive"] == ["text", 0]
    assert own.needs == frozenset()


def test_a_loader_of_a_custom_pack_is_chained_and_linked_past() -> None:
    """Custom LoRA loaders would need a default LoRA, and could take only one."""
    nodes = wan()
    for key in ("lora_high", "lora_low"):
        nodes[key]["class_type"] = "NunchakuFluxLoraLoader"
        nodes[key]["inputs"]["lora_strength"] = nodes[key]["inputs"].pop("strength_model")
    loras = (LoraWeight(name="ink", weight=0.5), LoraWeight(name="fog"))
    graph = fill(prepared(nodes), VIDEO.model_copy(update={"lora": loras}), prefix="p")
    last = graph["lora_high"].inputs
    before = link_of(last["model"])
    assert before
    assert graph[before[0]].inputs["lora_strength"] == 0.25
    assert "lora_high" not in fill(prepared(nodes), VIDEO, prefix="p")


def test_a_number_of_its_own_holds_the_frames(subtests: pytest.Subtests) -> None:
    """A graph that keeps its length in a number node would ask for 80 frames, and make 77."""
    cases: list[tuple[str, str]] = [
        ("WanVideoEmptyEmbeds", "num_frames"),
        ("EmptyHunyuanLatentVideo", "length"),
        ("HunyuanVideo15ImageToVideo", "length"),
        ("WanVaceToVideo", "length"),
    ]
    for kind, name in cases:
        with subtests.test(kind=kind, name=name):
            nodes = wan(
                frames=node("PrimitiveInt", value="{{frames:81}}"),
                latent=node(kind, **{name: ["frames", 0]}),
            )
            request = VIDEO.model_copy(update={"seconds": 5})
            assert fill(prepared(nodes), request, prefix="p")["frames"].inputs["value"] == 81
            unknown = wan(latent=node("OwnLatent", length="{{frames:80}}"))
            assert fill(prepared(unknown), request, prefix="p")["latent"].inputs["length"] == 80


def test_frames_put_in_between_are_not_made_by_the_model(subtests: pytest.Subtests) -> None:
    """Five seconds at twice the frame rate would become ten, and take twice as long."""
    for rate in [32, "{{fps:32}}"]:
        with subtests.test(rate=rate):
            nodes = wan(
                between=node(
                    "RIFE VFI", frames=["decode", 0], multiplier=2, ckpt_name="rife47.pth"
                ),
                video=node("CreateVideo", images=["between", 0], fps=rate),
            )
            graph = fill(prepared(nodes), VIDEO.model_copy(update={"seconds": 5}), prefix="p")
            assert graph["latent"].inputs["length"] == 81
            assert graph["video"].inputs["fps"] == 32
            usual = prepared(nodes).usual
            assert (usual["frames"], usual["fps"], usual["seconds"]) == (162, 32, 5.0625)


def test_samplers_of_custom_packs_are_counted() -> None:
    """The steps of two samplers from a custom pack would start from 1 twice."""
    nodes = wan(
        first=node("WanVideoSampler", steps="{{steps:20}}", start_step=0, end_step="{{half_steps}}"),
        second=node("WanVideoSampler", steps="{{steps:20}}", start_step="{{half_steps}}", end_step=-1),
    )  # fmt: skip
    assert planned_steps(fill(prepared(nodes), VIDEO, prefix="p")) == {"first": 10, "second": 10}


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.sampled_from(
            ["{{image}}", "{{image2}}", "{{prompt}}", "{{frames:9}}", "{{fps:8}}", "{{lora:a}}"]
        ),
        st.tuples(st.sampled_from("abcde"), st.integers(0, 2)).map(list),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=6,
)  # fmt: skip
_KINDS = st.sampled_from(
    [
        "ReferenceLatent",
        "ImageBatch",
        "LoraLoader",
        "KSamplerAdvanced",
        "SaveVideo",
        "SaveImage",
        "LoadImage",
        "X",
        "EmptyLTXVLatentVideo",
        "BatchImagesNode",
        "PrimitiveInt",
        "TextEncode",
    ]
)
_INPUTS = st.sampled_from(
    [
        "image1",
        "image2",
        "latent",
        "conditioning",
        "model",
        "clip",
        "images.image0",
        "images.image1",
        "steps",
        "denoise",
        "latent_image",
        "sigmas",
        "fps",
        "save_output",
        "length",
        "filename_prefix",
    ]
)


@examples(100, quick=25)
@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.tuples(_KINDS, st.dictionaries(_INPUTS, _VALUES, max_size=5)),
        min_size=1,
    )
)
def test_no_graph_breaks_what_reads_it(drawn: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """One odd file would crash the bot instead of being reported with its node."""
    data = {key: {"class_type": kind, "inputs": inputs} for key, (kind, inputs) in drawn.items()}
    try:
        own = prepare(parsed(data), {}, name="own.json")
    except BadModel as error:
        assert str(error).startswith("own.json")  # noqa: PT017  # anything else is a crash
        return
    files = dict.fromkeys(own.needs, "usher/a.png")
    for request in (TextToImage(prompt="a"), VIDEO):
        try:
            graph = fill(own, request, prefix="p", files=files)
        except Rejected:
            continue
        json.dumps(as_json(graph))
        planned_steps(graph)
    warm_up(own, seed=1, files=files, limits={})


@examples(100, quick=25)
@given(st.sets(st.sampled_from(["image", "image2", "image3", "image4"])))
def test_what_is_cut_leaves_no_loose_end(gone: set[str]) -> None:
    """A server refuses a graph in which a link leads to a missing node."""
    nodes = prepared(references()).nodes
    left = without(nodes, gone)
    links = [link_of(value) for each in left.values() for value in each.inputs.values()]
    assert all(link[0] in left for link in links if link)
    assert "save" in left
    assert needed_files(left, ["save"], gone) == frozenset()
    assert without(left, gone) == left


def test_nodes_are_left_as_they_were() -> None:
    """One request would change the template of all later ones."""
    own = prepared(wan())
    before = {
        key: Node(class_type=n.class_type, inputs=dict(n.inputs)) for key, n in own.nodes.items()
    }
    loras = (LoraWeight(name="a"), LoraWeight(name="b"))
    fill(own, VIDEO.model_copy(update={"lora": loras}), prefix="p")
    warm_up(own, seed=1, limits={})
    assert own.nodes == before
