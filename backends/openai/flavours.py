"""The table of flavours of OpenAI-compatible servers. A new flavour is a file and a line here."""

from collections.abc import Mapping

from backends.openai.flavour import Flavour, Generic
from backends.openai.llamacpp import LlamaCpp, LlamaCppPython, LlamaCppRouter
from backends.openai.llamaswap import LlamaSwap
from backends.openai.ollama import Ollama
from backends.openai.vllm import VLlm

FLAVOURS: Mapping[str, type[Flavour]] = {
    flavour.name: flavour
    for flavour in (
        LlamaSwap,
        Ollama,
        LlamaCppRouter,
        LlamaCpp,
        VLlm,
        LlamaCppPython,
        Generic,
    )
}
"""By the name of the option `flavour`, in the order they are tried: each is detected by a call that
the ones before it lack; `Generic` comes last.
"""
