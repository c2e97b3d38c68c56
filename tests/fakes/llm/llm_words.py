"""The wording with which each kind of text server refuses, as recorded or documented."""

import json
from typing import Any

from aiohttp import web

from tests.fakes.llm.llm_script import LM_STUDIO, LoadFault, Model


def tokens_of(body: Any) -> int:
    return sum(len(str(message["content"])) for message in body["messages"]) // 4


def copy_name(model: str, number: int) -> str:
    return model if number == 1 else f"{model}:{number}"


def answer_json(status: int, body: object) -> web.Response:
    return web.json_response(body, status=status)


def data_line(body: object) -> str:
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


def error(kind: str, status: int, message: str, type_: str, code: object = None) -> web.Response:
    if kind.startswith("llamacpp"):
        return answer_json(status, {"error": {"code": status, "message": message, "type": type_}})
    fault = {"message": message, "type": type_, "param": None, "code": code}
    return answer_json(status, {"error": fault})


def no_model(kind: str, name: str) -> web.Response:
    match kind:
        case "llamacpp-router":
            text = f"model '{name}' not found"
            return error(kind, 400, text, "invalid_request_error")
        case "ollama":
            text = f'model "{name}" not found, try pulling it first'
            return error(kind, 404, text, "api_error")
        case "vllm":
            text = f"The model `{name}` does not exist."
            return error(kind, 404, text, "NotFoundError", 404)
        case "llamaswap":
            return web.Response(status=404, text="no router for model " + name)
    text = f'Model "{name}" not found. Please specify a valid model. Your models: …'
    return error(kind, 404, text, "invalid_request_error", "model_not_found")


def nothing_loaded() -> web.Response:
    text = (
        "No models loaded. Please load a model in the developer page or use the 'lms load' command."
    )
    said = {"message": text, "type": "invalid_request_error", "code": "model_not_found"}
    return answer_json(404, {"error": said | {"param": "model"}})


def too_long(kind: str, tokens: int, model: Model, body: Any) -> web.Response | None:
    if kind.startswith("llamacpp"):
        fault = {
            "code": 400,
            "message": f"request ({tokens} tokens) exceeds the available context size ({model.context} tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": tokens,
            "n_ctx": model.context,
        }
        return answer_json(400, {"error": fault})
    if kind in LM_STUDIO:
        text = f"Trying to keep the first {tokens} tokens when context the overflows. However, the model is loaded with context length of only {model.context} tokens"
        return answer_json(200, {"error": text})
    if kind == "llama-cpp-python" and body.get("stream"):
        return None  # it only writes to the log, and breaks the stream
    text = f"This model's maximum context length is {model.context} tokens. However, you requested {tokens} tokens"
    return error(kind, 400, text, "invalid_request_error", "context_length_exceeded")


def load_failure(kind: str, fault: LoadFault) -> web.Response:
    if kind == "ollama":
        text = "model requires more system memory (12.1 GiB) than is available (3.4 GiB)"
        return answer_json(500, {"error": text})
    if fault is LoadFault.CRASH:
        fault_body = {"message": "Failed to load model", "type": "model_load_failed"}
        return answer_json(500, {"error": fault_body})
    text = "Model loading was stopped due to insufficient system resources. approximately 12 GB"
    return answer_json(
        200 if kind == "lmstudio-0.3" else 500,
        {"error": {"message": text, "type": "internal_error"}},
    )


def unknown_path(kind: str, request: web.Request) -> web.Response:
    if kind in LM_STUDIO:
        text = f"Unexpected endpoint or method. ({request.method} {request.path})"
        return answer_json(200, {"error": text})
    if kind.startswith("llamacpp"):
        fault = {"message": "File Not Found", "type": "not_found_error", "code": 404}
        return answer_json(404, {"error": fault})
    if kind == "vllm":
        return answer_json(404, {"detail": "Not Found"})
    if kind == "generic" and request.path == "/running":  # as gateways do
        return answer_json(403, {"error": "forbidden"})
    if kind == "generic":  # a page for browsers, whatever is asked
        return web.Response(text="<html>Hello!</html>", content_type="text/html")
    return web.Response(status=404, text="404 page not found")
