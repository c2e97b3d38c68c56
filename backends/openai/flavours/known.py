"""The flavours of text and speech servers that are detected, in order."""

from collections.abc import Mapping

from backends.openai.flavours.flavour import Flavour
from backends.openai.flavours.llamacpp import LlamaCpp, LlamaCppPython, LlamaCppRouter, LlamaSwap
from backends.openai.flavours.localai import LocalAiServer
from backends.openai.flavours.ollama import Ollama
from backends.openai.flavours.speech_servers import Kokoro, Speaches, WhisperCpp
from backends.openai.flavours.vllm import VLlm

FLAVOURS: Mapping[str, type[Flavour]] = {
    flavour.name: flavour
    for flavour in (
        LlamaSwap,
        LocalAiServer,  # also answers like Ollama and vLLM
        Ollama,
        LlamaCppRouter,
        LlamaCpp,
        VLlm,
        Speaches,
        Kokoro,
        LlamaCppPython,
        WhisperCpp,
        Flavour,
    )
}
"""By the name in the option `flavour`, in detection order. A server that also answers the calls of
other flavours comes before them. `Flavour` comes last.
"""
