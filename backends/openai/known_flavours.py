"""The table of flavours of OpenAI-compatible servers. A new flavour is a file and a line here."""

from collections.abc import Mapping

from backends.openai.flavours.flavour import Flavour
from backends.openai.flavours.kokoro import Kokoro
from backends.openai.flavours.llamacpp import LlamaCpp, LlamaCppPython, LlamaCppRouter
from backends.openai.flavours.llamaswap import LlamaSwap
from backends.openai.flavours.localai import LocalAiServer
from backends.openai.flavours.ollama import Ollama
from backends.openai.flavours.speech_servers import Speaches
from backends.openai.flavours.vllm import VLlm
from backends.openai.flavours.whispercpp import WhisperCpp

FLAVOURS: Mapping[str, type[Flavour]] = {
    flavour.name: flavour
    for flavour in (
        LlamaSwap,
        LocalAiServer,  # answers like Ollama and vLLM as well
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
"""By the name of the option `flavour`, in the order they are tried: each is detected by a call that
the ones before it lack; `Flavour` comes last.
"""
