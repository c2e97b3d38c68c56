"""Graphs of videos, music and edits, in the shapes of ComfyUI's own examples."""

import json
from typing import Any

from pydantic import JsonValue

from backends.comfyui.workflow.offered_nodes import faults_in
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.template import Template, prepare
from queueing.core.errors import BadModel

Nodes = dict[str, Any]


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def euler(steps: str, cfg: float | str) -> dict[str, Any]:
    """Return the usual inputs of a sampler."""
    return {
        "seed": "{{seed}}",
        "steps": steps,
        "cfg": cfg,
        "sampler_name": "euler",
        "scheduler": "simple",
        "denoise": 1.0,
    }


def prepared(nodes: Nodes, **values: JsonValue) -> Template:
    return prepare(parse_workflow(json.dumps(nodes), name="own.json"), values, name="own.json")


def wan(**more: Any) -> Nodes:
    """Return a video that two experts sample, each with its LoRAs."""
    sampler = {
        "steps": "{{steps:20}}",
        "cfg": "{{guidance:3.5}}",
        "sampler_name": "euler",
        "scheduler": "simple",
        "positive": ["positive", 0],
        "negative": ["negative", 0],
    }
    slot = {"lora_name": "{{lora}}", "strength_model": 0.5}
    return {
        "high": node("UNETLoader", unet_name="wan_high.safetensors", weight_dtype="default"),
        "low": node("UNETLoader", unet_name="wan_low.safetensors", weight_dtype="default"),
        "lora_high": node("LoraLoaderModelOnly", **slot, model=["high", 0]),
        "lora_low": node("LoraLoaderModelOnly", **slot, model=["low", 0]),
        "clip": node("CLIPLoader", clip_name="umt5.safetensors", type="wan"),
        "vae": node("VAELoader", vae_name="wan_2.1_vae.safetensors"),
        "positive": node("CLIPTextEncode", text="{{prompt}}", clip=["clip", 0]),
        "negative": node("CLIPTextEncode", text="{{negative:blurred}}", clip=["clip", 0]),
        "latent": node(
            "EmptyHunyuanLatentVideo",
            width="{{width:832}}",
            height="{{height:480}}",
            length="{{frames:81}}",
            batch_size=1,
        ),
        "first": node(
            "KSamplerAdvanced",
            **sampler,
            model=["lora_high", 0],
            latent_image=["latent", 0],
            noise_seed="{{seed}}",
            add_noise="enable",
            start_at_step=0,
            end_at_step="{{half_steps}}",
            return_with_leftover_noise="enable",
        ),
        "second": node(
            "KSamplerAdvanced",
            **sampler,
            model=["lora_low", 0],
            latent_image=["first", 0],
            noise_seed="{{seed}}",
            add_noise="disable",
            start_at_step="{{half_steps}}",
            end_at_step=10000,
            return_with_leftover_noise="disable",
        ),
        "decode": node("VAEDecode", samples=["second", 0], vae=["vae", 0]),
        "video": node("CreateVideo", images=["decode", 0], fps="{{fps:16}}"),
        "save": node(
            "SaveVideo", video=["video", 0], filename_prefix="x", format="auto", codec="auto"
        ),
        **more,
    }


def wan_from_images() -> Nodes:
    """Return the same video between a first image and, if there is one, a last."""
    nodes = wan(
        start=node("LoadImage", image="{{image}}"),
        end=node("LoadImage", image="{{last_image}}"),
        latent=node(
            "WanFirstLastFrameToVideo",
            positive=["positive", 0],
            negative=["negative", 0],
            vae=["vae", 0],
            width="{{width:832}}",
            height="{{height:480}}",
            length="{{frames:81}}",
            batch_size=1,
            start_image=["start", 0],
            end_image=["end", 0],
        ),
    )
    for sampler in ("first", "second"):
        nodes[sampler]["inputs"] |= {"positive": ["latent", 0], "negative": ["latent", 1]}
    nodes["first"]["inputs"]["latent_image"] = ["latent", 2]
    return nodes


def ltx() -> Nodes:
    """Return a video with sound in two stages, from an image if there is one."""
    return {
        "checkpoint": node("CheckpointLoaderSimple", ckpt_name="ltx-2.safetensors"),
        "audio_vae": node("LTXVAudioVAELoader", ckpt_name="ltx-2.safetensors"),
        "positive": node("CLIPTextEncode", text="{{prompt}}", clip=["checkpoint", 1]),
        "conditions": node(
            "LTXVConditioning",
            positive=["positive", 0],
            negative=["positive", 0],
            frame_rate="{{fps:25}}",
        ),
        "image": node("LoadImage", image="{{image}}"),
        "small": node("LTXVPreprocess", image=["image", 0], img_compression=33),
        "latent": node(
            "EmptyLTXVLatentVideo",
            width="{{width:1280}}",
            height="{{height:704}}",
            length="{{frames:121}}",
            batch_size=1,
        ),
        "start": node(
            "LTXVImgToVideoInplace",
            vae=["checkpoint", 2],
            image=["small", 0],
            latent=["latent", 0],
            strength=1.0,
            bypass=False,
        ),
        "sound": node(
            "LTXVEmptyLatentAudio",
            frames_number="{{frames:121}}",
            frame_rate="{{fps:25}}",
            batch_size=1,
            audio_vae=["audio_vae", 0],
        ),
        "both": node("LTXVConcatAVLatent", video_latent=["start", 0], audio_latent=["sound", 0]),
        "sampler": node(
            "KSampler",
            model=["checkpoint", 0],
            **euler("{{steps:8}}", 1.0),
            positive=["conditions", 0],
            negative=["conditions", 1],
            latent_image=["both", 0],
        ),
        "larger": node("LTXVLatentUpsampler", samples=["sampler", 0], vae=["checkpoint", 2]),
        "decode": node("VAEDecode", samples=["larger", 0], vae=["checkpoint", 2]),
        "video": node("CreateVideo", images=["decode", 0], fps="{{fps:25}}"),
        "save": node(
            "SaveVideo", video=["video", 0], filename_prefix="x", format="auto", codec="auto"
        ),
    }


def references(words: tuple[str, ...] = ("image", "image2", "image3", "image4")) -> Nodes:
    """Return an edit that combines images, each as a separate reference."""
    nodes: Nodes = {
        "unet": node("UNETLoader", unet_name="flux-2-klein.safetensors", weight_dtype="default"),
        "clip": node("CLIPLoader", clip_name="qwen_3_4b.safetensors", type="flux2"),
        "vae": node("VAELoader", vae_name="flux2-vae.safetensors"),
        "text": node("CLIPTextEncode", text="{{prompt}}", clip=["clip", 0]),
        "none": node("ConditioningZeroOut", conditioning=["text", 0]),
        "latent": node(
            "EmptyFlux2LatentImage",
            width="{{width:1024}}",
            height="{{height:1024}}",
            batch_size="{{count}}",
        ),
    }
    ends = {"positive": "text", "negative": "none"}
    for word in words:
        nodes[word] = node("LoadImage", image=f"{{{{{word}}}}}")
        nodes[f"{word}-sized"] = node(
            "ImageScaleToTotalPixels",
            image=[word, 0],
            upscale_method="lanczos",
            megapixels=1.0,
            resolution_steps=1,
        )
        nodes[f"{word}-latent"] = node("VAEEncode", pixels=[f"{word}-sized", 0], vae=["vae", 0])
        for side, before in ends.items():
            nodes[f"{word}-{side}"] = node(
                "ReferenceLatent", conditioning=[before, 0], latent=[f"{word}-latent", 0]
            )
        ends = {side: f"{word}-{side}" for side in ends}
    nodes["sampler"] = node(
        "KSampler",
        model=["unet", 0],
        **euler("{{steps:4}}", 1.0),
        positive=[ends["positive"], 0],
        negative=[ends["negative"], 0],
        latent_image=["latent", 0],
    )
    nodes["decode"] = node("VAEDecode", samples=["sampler", 0], vae=["vae", 0])
    nodes["save"] = node("SaveImage", images=["decode", 0], filename_prefix="x")
    return nodes


def qwen_edit() -> Nodes:
    """Return an edit whose encoder sees up to three images and draws over the first."""
    encode = {"clip": ["clip", 0], "vae": ["vae", 0]}
    seen = {"image1": ["sized", 0], "image2": ["second", 0], "image3": ["third", 0]}
    return {
        "unet": node("UNETLoader", unet_name="qwen_edit.safetensors", weight_dtype="default"),
        "clip": node("CLIPLoader", clip_name="qwen_2.5_vl.safetensors", type="qwen_image"),
        "vae": node("VAELoader", vae_name="qwen_image_vae.safetensors"),
        "first": node("LoadImage", image="{{image}}"),
        "second": node("LoadImage", image="{{image2}}"),
        "third": node("LoadImage", image="{{image3}}"),
        "sized": node("FluxKontextImageScale", image=["first", 0]),
        "latent": node("VAEEncode", pixels=["sized", 0], vae=["vae", 0]),
        "positive": node("TextEncodeQwenImageEditPlus", prompt="{{prompt}}", **encode, **seen),
        "negative": node("TextEncodeQwenImageEditPlus", prompt="", **encode, **seen),
        "sampler": node(
            "KSampler",
            model=["unet", 0],
            **euler("{{steps:20}}", "{{guidance:4}}"),
            positive=["positive", 0],
            negative=["negative", 0],
            latent_image=["latent", 0],
        ),
        "decode": node("VAEDecode", samples=["sampler", 0], vae=["vae", 0]),
        "save": node("SaveImage", images=["decode", 0], filename_prefix="x"),
    }


def masked() -> Nodes:
    """Return the same edit, painting only where a mask says so, if there is one."""
    nodes = qwen_edit() | {
        "mask": node("LoadImage", image="{{mask}}"),
        "noise": node("SetLatentNoiseMask", samples=["latent", 0], mask=["mask", 1]),
    }
    nodes["sampler"]["inputs"]["latent_image"] = ["noise", 0]
    return nodes


def song() -> Nodes:
    """Return music with sung words."""
    return {
        "checkpoint": node("CheckpointLoaderSimple", ckpt_name="ace_step_1.5.safetensors"),
        "positive": node(
            "TextEncodeAceStepAudio1.5",
            clip=["checkpoint", 1],
            tags="{{prompt}}",
            lyrics="{{lyrics}}",
            seed="{{seed}}",
            duration="{{seconds:120}}",
        ),
        "none": node("ConditioningZeroOut", conditioning=["positive", 0]),
        "latent": node("EmptyAceStep1.5LatentAudio", seconds="{{seconds:120}}", batch_size=1),
        "sampler": node(
            "KSampler",
            model=["checkpoint", 0],
            **euler("{{steps:8}}", 1.0),
            positive=["positive", 0],
            negative=["none", 0],
            latent_image=["latent", 0],
        ),
        "decode": node("VAEDecodeAudio", samples=["sampler", 0], vae=["checkpoint", 2]),
        "save": node("SaveAudioMP3", audio=["decode", 0], filename_prefix="x", quality="V0"),
    }


def check_offered(workflow: Template, key: str, offered: JsonValue) -> None:
    """Raise `BadModel` unless the server accepts a node."""
    if found := list(faults_in(workflow, key, offered)):
        raise BadModel(". ".join(found))
