"""Templates for videos, music and edits: their numbers, their images, and what they can do."""

import json

import pytest

from backends.comfyui.workflow.graph.analysis import Medium
from backends.comfyui.workflow.graph.edits import without
from backends.comfyui.workflow.graph.nodes import Graph, as_json, link_of, places
from backends.comfyui.workflow.rendering import fill, warm_up
from backends.comfyui.workflow.template import Template
from queueing.core.errors import BadModel, Rejected
from queueing.core.requests import (
    Capability,
    File,
    LoraWeight,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from tests.backends.comfyui.workflow.graphs import (
    Nodes,
    ltx,
    masked,
    node,
    prepared,
    qwen_edit,
    references,
    song,
    wan,
    wan_from_images,
)
from tests.told import words

VIDEO = TextToVideo(prompt="a cat", seed=7)
EDIT = TextToImage(prompt="make it winter", edit=True)
A, B, C, D = "usher/a.png", "usher/b.png", "usher/c.png", "usher/d.png"


def plain(graph: Graph) -> Nodes:
    nodes: Nodes = json.loads(json.dumps(as_json(graph)))
    return nodes


def sound(graph: Nodes) -> bool:
    """Return whether every link of a graph leads somewhere and no placeholder is left."""
    links = [link_of(value) for each in graph.values() for value in each["inputs"].values()]
    return all(link[0] in graph for link in links if link) and "{{" not in str(graph)


# ---------------------------------------------------------------- lengths and sizes


def test_a_video_has_the_frames_its_family_makes(subtests: pytest.Subtests) -> None:
    """A server would silently cut a video short: 80 frames of Wan become 77."""
    cases: list[tuple[Nodes, float | None, float | None, int]] = [
        (wan(), None, None, 81),
        (wan(), 5, None, 81),
        (wan(), 2, None, 33),
        (wan(), 3.1, None, 49),
        (wan(), 5, 24, 121),
        (wan(), 0.01, None, 5),
        (ltx(), 5, None, 129),
        (ltx(), 5, 24, 121),
        (ltx(), None, None, 121),
    ]
    for nodes, seconds, fps, frames in cases:
        with subtests.test(seconds=seconds, fps=fps):
            graph = fill(
                prepared(nodes),
                VIDEO.model_copy(update={"seconds": seconds, "fps": fps}),
                prefix="p",
            )
            assert graph["latent"].inputs["length"] == frames
            step = 8 if "LTX" in graph["latent"].class_type else 4
            assert frames % step == 1


def test_image_and_sound_of_a_video_have_one_length() -> None:
    """Picture and sound would drift apart, or the sound end before the video."""
    graph = fill(prepared(ltx()), VIDEO.model_copy(update={"seconds": 4, "fps": 30}), prefix="p")
    assert graph["sound"].inputs["frames_number"] == graph["latent"].inputs["length"]
    rates = [graph["conditions"].inputs["frame_rate"], graph["sound"].inputs["frame_rate"]]
    assert [*rates, graph["video"].inputs["fps"]] == [30, 30, 30]
    assert all(isinstance(rate, int) for rate in rates)


def test_without_a_rate_of_its_own_a_graphs_fixed_one_counts() -> None:
    """Five seconds would last longer or shorter in a graph whose rate is fixed at 24 frames/s."""
    nodes = wan(video=node("CreateVideo", images=["decode", 0], fps=24))
    own = prepared(nodes)
    assert (
        fill(own, VIDEO.model_copy(update={"seconds": 5}), prefix="p")["latent"].inputs["length"]
        == 121
    )
    assert "fps" not in own.options
    assert "seconds" in own.options


def test_the_operator_sets_frames_or_seconds() -> None:
    """A GPU with little memory would get videos of a length it cannot hold."""
    for values, frames in ({"frames": 33}, 33), ({"frames": 32}, 33):
        assert (
            fill(prepared(wan(), **values), VIDEO, prefix="p")["latent"].inputs["length"] == frames
        )
    bare = wan()
    bare["latent"]["inputs"]["length"] = "{{frames}}"
    own = prepared(bare, seconds=3)
    assert fill(own, VIDEO, prefix="p")["latent"].inputs["length"] == 49
    assert own.usual["seconds"] == 3
    assert "frames" not in own.usual


def test_sizes_follow_the_familys_grid(subtests: pytest.Subtests) -> None:
    """x264 refuses odd sizes after the sampling; LTX makes 704 lines of 720 in two stages."""
    cases: list[tuple[Nodes, tuple[int, int], tuple[int, int]]] = [
        (wan(), (833, 479), (832, 480)),
        (ltx(), (1280, 720), (1280, 704)),
        (ltx(), (64, 64), (64, 64)),
    ]
    for nodes, asked, size in cases:
        with subtests.test(nodes=nodes):
            request = VIDEO.model_copy(update={"width": asked[0], "height": asked[1]})
            latent = fill(prepared(nodes), request, prefix="p")["latent"].inputs
            assert (latent["width"], latent["height"]) == size


def test_two_experts_share_the_steps(subtests: pytest.Subtests) -> None:
    """One expert would do all of the work, or none."""
    cases: list[tuple[int, int]] = [(20, 10), (4, 2), (5, 3), (1, 1)]
    for steps, half in cases:
        with subtests.test(steps=steps, half=half):
            graph = fill(prepared(wan()), VIDEO.model_copy(update={"steps": steps}), prefix="p")
            first, second = graph["first"].inputs, graph["second"].inputs
            assert (first["steps"], first["end_at_step"]) == (steps, half)
            assert (second["steps"], second["start_at_step"]) == (steps, half)


def test_frames_without_a_rate_or_a_length_are_refused_at_start() -> None:
    """A length in seconds could not be kept."""
    nodes = wan(video=node("Unknown", images=["decode", 0]))
    with pytest.raises(BadModel, match=r"frames.* needs .*fps"):
        prepared(nodes)
    bare = wan()
    bare["latent"]["inputs"]["length"] = "{{frames}}"
    with pytest.raises(BadModel, match="needs a default"):
        prepared(bare)


def test_a_song_has_its_words_and_one_length() -> None:
    """Encoder and latent would disagree about the length of the song."""
    request = TextToAudio(prompt="jazz", lyrics="[Verse]\nla", seconds=30.0, seed=3)
    graph = fill(prepared(song()), request, prefix="p")
    assert graph["positive"].inputs["lyrics"] == "[Verse]\nla"
    assert graph["positive"].inputs["duration"] == graph["latent"].inputs["seconds"] == 30
    assert isinstance(graph["latent"].inputs["seconds"], int)
    assert (
        fill(prepared(song()), TextToAudio(prompt="jazz"), prefix="p")["positive"].inputs["lyrics"]
        == ""
    )


# ---------------------------------------------------------------- images that may be missing


def test_a_reference_that_is_not_there_is_linked_past() -> None:
    """A server would be asked for a file that has no name."""
    own = prepared(references())
    for count, files in enumerate([{}, {"image": A}, {"image": A, "image2": B}]):
        graph = plain(
            fill(own, EDIT if files else TextToImage(prompt="a"), prefix="p", files=files)
        )
        assert sound(graph)
        kinds = [each["class_type"] for each in graph.values()]
        assert kinds.count("ReferenceLatent") == 2 * count
        assert kinds.count("LoadImage") == count


def test_the_fourth_image_without_the_second_leaves_no_gap() -> None:
    """A chain of references with a gap would be broken."""
    graph = plain(fill(prepared(references()), EDIT, prefix="p", files={"image": A, "image4": D}))
    assert sound(graph)
    assert graph["sampler"]["inputs"]["positive"] == ["image4-positive", 0]
    assert graph["image4-positive"]["inputs"]["conditioning"] == ["image-positive", 0]


def test_an_encoder_sees_the_images_that_are_there() -> None:
    """An edit of one image would require three."""
    own = prepared(qwen_edit())
    assert own.needs == {"image"}
    graph = plain(fill(own, EDIT, prefix="p", files={"image": A}))
    assert sound(graph)
    for side in ("positive", "negative"):
        assert {"image1"} == {name for name in graph[side]["inputs"] if name.startswith("image")}


def test_a_video_may_do_without_its_last_image_or_its_first() -> None:
    """A video from only a first or only a last image would need another template."""
    own = prepared(wan_from_images())
    assert own.needs == {"image"}
    alone = plain(fill(own, VIDEO, prefix="p", files={"image": A}))
    assert sound(alone)
    assert "end_image" not in alone["latent"]["inputs"]
    both = plain(fill(own, VIDEO, prefix="p", files={"image": A, "last_image": B}))
    assert both["end"]["inputs"]["image"] == B
    free = plain(fill(prepared(ltx()), VIDEO, prefix="p"))
    assert sound(free)
    assert free["both"]["inputs"]["video_latent"] == ["latent", 0]


def test_numbered_inputs_and_batches_shrink() -> None:
    """Nodes that accept any number of images would always need all of them."""
    nodes = references(())
    nodes |= {
        "one": node("LoadImage", image="{{image}}"),
        "two": node("LoadImage", image="{{image2}}"),
        "three": node("LoadImage", image="{{image3}}"),
        "batch": node("ImageBatch", image1=["one", 0], image2=["two", 0]),
        "grown": node(
            "BatchImagesNode", **{"images.image_0": ["batch", 0], "images.image_1": ["three", 0]}
        ),
        "encode": node("VAEEncode", pixels=["grown", 0], vae=["vae", 0]),
    }
    nodes["sampler"]["inputs"]["latent_image"] = ["encode", 0]
    own = prepared(nodes)
    assert own.needs == frozenset({"image"})
    graph = plain(fill(own, EDIT, prefix="p", files={"image": A}))
    assert sound(graph)
    assert graph["grown"]["inputs"] == {"images.image_0": ["one", 0]}
    last = plain(without(own.nodes, {"image", "image2"}))
    assert list(last["grown"]["inputs"]) == ["images.image_0"]  # the node requires a first image


def test_an_encoder_with_a_list_of_images_reads_the_text_alone() -> None:
    """A model that can draw and edit would need a template for each."""
    nodes = references(())
    nodes["one"] = node("LoadImage", image="{{image}}")
    nodes["text"] = node(
        "TextEncodeOwn", prompt="{{prompt}}", clip=["clip", 0], **{"images.image0": ["one", 0]}
    )
    own = prepared(nodes)
    assert own.needs == frozenset()
    graph = plain(fill(own, TextToImage(prompt="a"), prefix="p"))
    assert set(graph["text"]["inputs"]) == {"prompt", "clip"}


def test_a_graph_that_draws_over_the_mask_needs_it() -> None:
    """The whole image would be painted over."""
    own = prepared(masked())
    graph = plain(fill(own, EDIT, prefix="p", files={"image": A}))
    assert graph["sampler"]["inputs"]["latent_image"] == ["latent", 0]
    painted = fill(
        own, EDIT.model_copy(update={"mask": True}), prefix="p", files={"image": A, "mask": B}
    )
    assert painted["mask"].inputs["image"] == B


@pytest.mark.parametrize(
    ("own", "request_", "files", "says"),
    [
        (prepared(wan()), VIDEO, {"image": A}, "can't start from an image"),
        (prepared(wan_from_images()), VIDEO, {}, "needs an image"),
        (prepared(ltx()), VIDEO, {"image": A, "last_image": B}, "can't use a last image"),
        (prepared(qwen_edit()), EDIT, {"image": A, "image2": B, "image3": C, "image4": D}, "3"),
        (prepared(qwen_edit()), EDIT.model_copy(update={"mask": True}), {"image": A, "mask": B}, "mask"),
        (prepared(wan()), VIDEO, {"audio": "x.wav"}, "recording"),
        (prepared(song()), TextToAudio(prompt="a", negative="b"), {}, "negative prompt"),
        (prepared(song()), TextToSpeech(text="hello", voice="ada"), {}, "voice"),
        (prepared(wan()), TextToImage(prompt="a"), {}, "server"),
        (prepared(song(), seconds=5), VIDEO, {}, "server"),
        (prepared(wan(), lora="x"), VIDEO.model_copy(update={"guidance": 2.0}), {}, ""),
    ],
)  # fmt: skip
def test_what_a_graph_has_no_place_for_is_refused_in_a_sentence(
    own: Template, request_: TextToVideo, files: dict[str, str], says: str
) -> None:
    """A file or an option would silently be ignored."""
    if not says:
        assert fill(own, request_, prefix="p", files=files)
        return
    with pytest.raises(Rejected) as caught:
        fill(own, request_, prefix="p", files=files)
    assert says in words(caught.value)


def test_every_file_has_its_place() -> None:
    """A mask would be combined as an image, or a sound be read as one."""
    one, two, three = (File(name="x", mime="image/png", data=bytes([n])) for n in range(3))
    voice = File(name="v", mime="audio/ogg", data=b"v")
    assert places(VIDEO, [one, voice, two]) == {"image": one, "last_image": two, "audio": voice}
    masked = EDIT.model_copy(update={"mask": True})
    assert places(masked, [one, two, three]) == {"image": one, "image2": two, "mask": three}
    assert places(EDIT, [one, two]) == {"image": one, "image2": two}


# ---------------------------------------------------------------- what a template can do


def test_a_template_shows_what_it_can_do(subtests: pytest.Subtests) -> None:
    """An operator would have to configure what the graph already says."""
    cases: list[tuple[Nodes, Medium, set[Capability]]] = [
        (wan(), Medium.VIDEO, {Capability.TEXT_TO_VIDEO}),
        (wan_from_images(), Medium.VIDEO, {Capability.IMAGE_TO_VIDEO}),
        (ltx(), Medium.VIDEO, {Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO}),
        (song(), Medium.SOUND, {Capability.TEXT_TO_AUDIO}),
        (qwen_edit(), Medium.IMAGE, {Capability.IMAGE_EDIT, Capability.IMAGE_TO_IMAGE}),
        (
            references(),
            Medium.IMAGE,
            {Capability.TEXT_TO_IMAGE, Capability.IMAGE_EDIT, Capability.IMAGE_TO_IMAGE},
        ),
        (references(()), Medium.IMAGE, {Capability.TEXT_TO_IMAGE}),
    ]
    for nodes, medium, able in cases:
        with subtests.test(nodes=nodes):
            own = prepared(nodes)
            assert own.medium is medium
            assert own.abilities == able


def test_the_saving_node_tells_the_medium(subtests: pytest.Subtests) -> None:
    """A model that makes videos would be offered for images."""
    cases: list[tuple[str, Nodes, Medium]] = [
        ("SaveVideo", {"video": ["video", 0]}, Medium.VIDEO),
        ("SaveWEBM", {"images": ["decode", 0]}, Medium.VIDEO),
        ("SaveAnimatedWEBP", {"images": ["decode", 0]}, Medium.VIDEO),
        ("SaveAnimatedPNG", {"images": ["decode", 0]}, Medium.VIDEO),
        ("VHS_VideoCombine", {"images": ["decode", 0], "save_output": True}, Medium.VIDEO),
        ("SaveImageAdvanced", {"images": ["decode", 0]}, Medium.IMAGE),
        ("Image Save", {"images": ["decode", 0]}, Medium.IMAGE),
        ("SaveAudioAdvanced", {"audio": ["decode", 0]}, Medium.SOUND),
        ("SaveAudioOpus", {"audio": ["decode", 0]}, Medium.SOUND),
    ]
    for kind, inputs, medium in cases:
        with subtests.test(kind=kind):
            saving = node(kind, filename_prefix="x", **inputs)
            assert prepared(wan(save=saving)).medium is medium
            both = wan(
                save=saving, still=node("SaveImage", images=["decode", 0], filename_prefix="y")
            )
            assert prepared(both).medium is (medium if medium is not Medium.IMAGE else Medium.IMAGE)


def test_a_video_that_is_only_shown_is_none() -> None:
    """Every video would be rendered into the server's temporary folder and then be missing."""
    nodes = wan(
        save=node("VHS_VideoCombine", images=["decode", 0], filename_prefix="x", save_output=False)
    )
    with pytest.raises(BadModel, match="no output node"):
        prepared(nodes)


def test_a_graph_that_speaks_is_known_by_its_voice() -> None:
    """A model that reads aloud would be asked for music."""
    nodes = {
        "speak": node("F5", text="{{prompt}}", speaker="{{voice:ada}}", seed="{{seed}}"),
        "save": node("SaveAudio", audio=["speak", 0], filename_prefix="x"),
    }
    own = prepared(nodes)
    assert own.abilities == {Capability.TEXT_TO_SPEECH}
    graph = fill(own, TextToSpeech(text="hello", voice="bob"), prefix="p")
    assert graph["speak"].inputs == {"text": "hello", "speaker": "bob", "seed": 0}
    assert fill(own, TextToSpeech(text="hi"), prefix="p")["speak"].inputs["speaker"] == "ada"
    with pytest.raises(Rejected):
        fill(own, TextToSpeech(text="hi", speed=2), prefix="p")


# ---------------------------------------------------------------- LoRAs


def test_several_loras_are_chained_for_both_experts() -> None:
    """Only the first LoRA would be used, at full strength, and by one expert."""
    loras = (LoraWeight(name="ink.safetensors", weight=0.8), LoraWeight(name="fog.safetensors"))
    graph = plain(fill(prepared(wan()), VIDEO.model_copy(update={"lora": loras}), prefix="p"))
    assert sound(graph)
    for expert, sampler in ("high", "first"), ("low", "second"):
        last = graph[graph[sampler]["inputs"]["model"][0]]["inputs"]
        first = graph[last["model"][0]]["inputs"]
        assert first == {
            "lora_name": "ink.safetensors",
            "strength_model": 0.4,
            "model": [expert, 0],
        }
        assert (last["lora_name"], last["strength_model"]) == ("fog.safetensors", 0.5)


def test_a_lora_of_one_expert_goes_to_that_expert() -> None:
    """Wan's LoRAs come in pairs, and each of the two would act on both experts."""
    nodes = wan()
    nodes["high"]["inputs"]["unet_name"] = "wan2.2_t2v_high_noise_14B.safetensors"
    nodes["low"]["inputs"]["unet_name"] = "wan2.2_t2v_low_noise_14B.safetensors"
    names = ("fog-HighNoise.safetensors", "fog_low_noise.safetensors", "ink.safetensors")
    loras = tuple(LoraWeight(name=name) for name in names)
    graph = plain(fill(prepared(nodes), VIDEO.model_copy(update={"lora": loras}), prefix="p"))
    assert sound(graph)
    assert chain(graph, "first") == [names[2], names[0]]
    assert chain(graph, "second") == [names[2], names[1]]
    alone = plain(fill(prepared(nodes), VIDEO.model_copy(update={"lora": loras[:1]}), prefix="p"))
    assert sound(alone)
    assert chain(alone, "first") == [names[0]]
    assert chain(alone, "second") == []


def chain(graph: Nodes, sampler: str) -> list[str]:
    """Return the LoRAs of a sampler's model, the last one first."""
    found, at = [], graph[sampler]["inputs"]["model"][0]
    while graph[at]["class_type"] == "LoraLoaderModelOnly":
        found.append(graph[at]["inputs"]["lora_name"])
        at = graph[at]["inputs"]["model"][0]
    return found


def test_a_weight_counts_for_model_and_encoder() -> None:
    """`ink:0.5` would act like `ink`."""
    nodes = references(())
    nodes["slot"] = node(
        "LoraLoader",
        lora_name="{{lora}}",
        strength_model=1.0,
        strength_clip=1.0,
        model=["unet", 0],
        clip=["clip", 0],
    )
    nodes["sampler"]["inputs"]["model"] = ["slot", 0]
    nodes["text"]["inputs"]["clip"] = ["slot", 1]
    loras = tuple(LoraWeight(name=name, weight=-0.5) for name in "abc")
    graph = plain(fill(prepared(nodes), TextToImage(prompt="a", lora=loras), prefix="p"))
    assert sound(graph)
    seen, at = [], graph["text"]["inputs"]["clip"]
    while graph[at[0]]["class_type"] == "LoraLoader":
        inputs = graph[at[0]]["inputs"]
        assert at[1] == 1
        assert inputs["strength_model"] == inputs["strength_clip"] == -0.5
        assert inputs["model"][0] == inputs["clip"][0] or inputs["clip"][0] == "clip"
        seen.append(inputs["lora_name"])
        at = inputs["clip"]
    assert seen == ["c", "b", "a"]


def test_loaders_that_follow_each_other_load_a_lora_once() -> None:
    """A template with two slots would apply one LoRA twice."""
    nodes = wan()
    nodes["lora_low"]["inputs"]["model"] = ["lora_high", 0]
    request = VIDEO.model_copy(update={"lora": (LoraWeight(name="ink"),)})
    graph = plain(fill(prepared(nodes), request, prefix="p"))
    assert sound(graph)
    assert "lora_low" not in graph


def test_a_loader_that_takes_one_says_so() -> None:
    """The second LoRA, or its weight, would be ignored."""
    nodes = references(())
    nodes["unet"] = node("OwnLoader", file="{{lora:plain.safetensors}}")
    own = prepared(nodes)
    two = (LoraWeight(name="a"), LoraWeight(name="b"))
    with pytest.raises(Rejected, match="only one LoRA"):
        fill(own, TextToImage(prompt="a", lora=two), prefix="p")
    with pytest.raises(Rejected, match="no strength"):
        fill(own, TextToImage(prompt="a", lora=(LoraWeight(name="a", weight=0.5),)), prefix="p")
    assert (
        fill(own, TextToImage(prompt="a"), prefix="p")["unet"].inputs["file"] == "plain.safetensors"
    )


# ---------------------------------------------------------------- loading ahead


def test_loading_ahead_costs_little_and_keeps_no_file(subtests: pytest.Subtests) -> None:
    """Loading a model that makes videos would take as long as a video."""
    for nodes in [wan(), wan_from_images(), ltx(), song(), references(), qwen_edit()]:
        with subtests.test(nodes=nodes):
            own = prepared(nodes)
            graph = plain(warm_up(own, seed=3, files=dict.fromkeys(own.needs, A), limits={}))
            assert sound(graph)
            assert graph["save"]["class_type"] in {"PreviewImage", "PreviewAudio"}
            latent = graph["latent"]["inputs"]
            assert latent.get("length", 1) <= 9
            assert latent.get("seconds", 1) == 1
            assert latent.get("width", 64) == 64
