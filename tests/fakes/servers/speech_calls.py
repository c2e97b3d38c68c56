"""The calls each kind of speech server has beside speech, its transcripts, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.servers.speech_script import INVENTED, SAID, segment

if TYPE_CHECKING:
    from tests.fakes.servers.speech import FakeSpeech

HEARS, SPEAKS = "ear", "mouth"
VOICES = ("af_heart", "am_adam")
PAGE = """
    <html><head><title>Whisper.cpp Server</title></head>
    <body><h1>Whisper.cpp Server</h1><h2>{path}</h2><h2>/load</h2></body></html>
"""
Routes = list[tuple[str, str, Any]]


def told(body: object, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)


def _always(body: object) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return told(body)

    return answer


def models_of(kind: str) -> list[dict[str, Any]]:
    """Return the entries of /v1/models."""
    match kind:
        case "speaches":
            ear = {"id": HEARS, "task": "automatic-speech-recognition", "language": ["en"]}
            voices = [{"name": name, "language": "en-us"} for name in VOICES]
            mouth = {"id": SPEAKS, "task": "text-to-speech", "voices": voices}
            rest = {"id": "silero", "task": "voice-activity-detection"}
            return [each | {"object": "model", "owned_by": "x"} for each in (ear, mouth, rest)]
        case "kokoro":
            names = ("tts-1", "tts-1-hd", "kokoro", "gpt-4o-mini-tts")
            return [{"id": name, "object": "model", "owned_by": "kokoro"} for name in names]
        case "llamacpp" | "vllm":
            return [{"id": HEARS, "object": "model"}]
    return [{"id": name, "object": "model"} for name in (HEARS, SPEAKS)]


def routes_of(server: FakeSpeech) -> Routes:
    """Return what this kind of server answers beside speech."""
    listed = {"object": "list", "data": models_of(server.kind)}
    models = ("GET", "/v1/models", _always(listed))
    props = {
        "default_generation_settings": {},
        "total_slots": 1,
        "modalities": {"vision": False, "audio": True},
        "build_info": "b1-0c1e570",
    }
    routes: dict[str, Routes] = {
        "whispercpp": _whisper_routes(server),
        "speaches": [models, *_speaches_routes(server)],
        "localai": [models, *_localai_routes(server)],
        "kokoro": [models, *_kokoro_routes(server)],
        "vllm": [models, ("GET", "/version", _always({"version": "0.11.0"}))],
        "llamacpp": [models, ("GET", "/props", _always(props))],
    }
    return routes.get(server.kind, [models, ("GET", "/", _web_page)])


async def _web_page(request: web.Request) -> web.Response:
    """Answer with a web page, as many servers do."""
    return web.Response(text="<html>" + "x" * 200_000, content_type="text/html")


def _whisper_routes(server: FakeSpeech) -> Routes:
    async def page(request: web.Request) -> web.Response:
        text = PAGE.format(path=server.path) if server.page else "<html>a site</html>"
        return web.Response(text=text, content_type="text/html")

    return [("GET", "/", page), ("GET", "/health", _always({"status": "ok"}))]


def _speaches_routes(server: FakeSpeech) -> Routes:
    async def running(request: web.Request) -> web.Response:
        return told({"models": sorted(server.loaded)})

    async def load(request: web.Request) -> web.Response:
        name = request.match_info["model"]
        if name in server.loaded:
            return told({"message": f"Model '{name}' is already loaded."}, 409)
        if name not in {HEARS, SPEAKS}:
            return told({"detail": f"Model '{name}' is not installed locally."}, 404)
        server.loads.append(name)
        server.loaded.add(name)
        return told({"message": f"Model '{name}' loaded."}, 201)

    async def unload(request: web.Request) -> web.Response:
        name = request.match_info["model"]
        if name not in server.loaded:
            return told({"message": f"Model {name} is not loaded."}, 404)
        server.loaded.discard(name)
        if name in server.in_use:
            return told({"message": f"Model {name} is still in use. self.ref_count=1"}, 409)
        return told({"message": f"Model {name} unloaded."})

    return [
        ("GET", "/api/ps", running),
        ("POST", "/api/ps/{model:.+}", load),
        ("DELETE", "/api/ps/{model:.+}", unload),
    ]


def _localai_routes(server: FakeSpeech) -> Routes:
    async def system(request: web.Request) -> web.Response:
        loaded = [{"id": name, "backend": "whisper"} for name in sorted(server.loaded)]
        return told({"backends": ["whisper", "piper"], "loaded_models": loaded})

    async def load(request: web.Request) -> web.Response:
        name = (await request.json())["model"]
        server.loads.append(name)
        server.loaded.add(name)
        return told({"loaded": [name], "message": "model loaded"})

    async def shutdown(request: web.Request) -> web.Response:
        name = (await request.json())["model"]
        if name not in server.loaded:
            return told({"error": {"message": f'model "{name}" is not loaded', "code": 404}}, 404)
        server.loaded.discard(name)
        return told({"message": "model stopped"})

    able = {HEARS: ["transcript"], SPEAKS: ["tts"], "writer": ["chat", "vision"]}
    entries = [{"id": name, "object": "model", "capabilities": does} for name, does in able.items()]
    newer: Routes = [
        ("GET", "/v1/models/capabilities", _always({"object": "list", "data": entries})),
        (
            "GET",
            "/.well-known/localai.json",
            _always({"endpoint_groups": {"monitoring": {"backend_load": "/backend/load"}}}),
        ),
        ("POST", "/backend/load", load),
    ]
    return [
        ("GET", "/version", _always({"version": "v3.9.0 (82c191a)"})),
        ("GET", "/api/version", _always({"version": "0.9.0"})),  # like Ollama
        ("GET", "/system", system),
        ("POST", "/backend/shutdown", shutdown),
        *([] if server.old else newer),
    ]


def _kokoro_routes(server: FakeSpeech) -> Routes:
    async def voices(request: web.Request) -> web.Response:
        new = [{"id": name, "name": name} for name in VOICES]
        return told({"voices": list(VOICES) if server.old else new})

    async def unload(request: web.Request) -> web.Response:
        if not server.unload_allowed:
            return told({"detail": {"error": "The /dev/unload endpoint is disabled"}}, 403)
        server.loads.append("unloaded")
        return told({"status": "unloaded"})

    return [("GET", "/v1/audio/voices", voices), ("POST", "/dev/unload", unload)]


# ---------------------------------------------------------------- speech


def model_of(server: FakeSpeech, name: str, *, hears: bool) -> web.Response | None:
    """Return why a server does not know the model of a request, or None if it does."""
    if server.kind in {"whispercpp", "llamacpp"}:
        return None
    known = [entry["id"] for entry in models_of(server.kind)]
    if name not in known:
        detail = f"Model '{name}' is not installed locally."
        return told({"detail": detail} if server.kind == "speaches" else {"error": detail}, 404)
    if server.kind in {"speaches", "localai"}:  # a request loads what it needs
        server.loaded.add(name)
    return None


def failure(kind: str, fault: str, fields: dict[str, Any]) -> web.Response | None:  # noqa: PLR0911, C901 - a table
    """Return what goes wrong with a call before any work is done, or None if nothing does."""
    odd = fields.get("response_format") not in {None, "json"} and "input" not in fields
    if kind == "llamacpp" and odd:
        return told({"error": {"code": 400, "message": "Only 'json' response_format"}}, 400)
    if kind == "speaches" and "input" in fields and "voice" not in fields:
        return told({"detail": [{"loc": ["body", "voice"], "msg": "Field required"}]}, 422)
    match fault:
        case "error-200":
            return told({"error": {"message": "CUDA out of memory", "type": "server_error"}})
        case "html":
            return web.Response(text="<html>It works!</html>", content_type="text/html")
        case "busy":
            return told({"error": {"message": "server busy"}}, 503)
        case "too-long":
            return told({"error": {"message": "Maximum file size exceeded"}}, 400)
        case "unreadable" if kind == "whispercpp":
            return web.Response(text="Invalid request", status=400)
        case "unreadable" if kind == "llamacpp":
            text = "Failed to load image or audio file"
            return told({"error": {"code": 400, "message": text}}, 400)
        case "no-voice":  # Kokoro-FastAPI's words
            text = f"Voice '{fields['voice']}' not found. Available voices: {', '.join(VOICES)}"
            return told({"detail": {"error": "validation_error", "message": text}}, 400)
        case "deaf":
            api = "The model does not support Transcriptions API"
            text = api if kind == "vllm" else "The current model does not support audio input."
            return told({"error": {"code": 501, "message": text}}, 501)
        case "unreadable":
            return told({"detail": "Failed to decode audio."}, 415)
        case "no-segments" if odd:
            return web.Response(text="Internal Server Error", status=500)
    return None


def transcript(kind: str, fields: dict[str, Any], fault: str, path: str) -> web.Response:
    """Return the server's transcript of any recording."""
    if fault == "no-text":
        return told({"txt": "?"})
    said = "" if fault == "silence" else SAID
    translated = path.endswith("translations") or fields.get("translate") == "true"
    said = said.replace("cat", "dog") if translated else said
    if fields.get("response_format") == "verbose_json":
        return told(_verbose(kind, said))
    match kind:
        case "whispercpp":
            return told({"text": f"{said}\n"})
        case "llamacpp":
            usage = {"type": "tokens", "input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
            return told({"type": "transcript.text.done", "text": said.strip(), "usage": usage})
        case "vllm":
            return told({"text": said, "usage": {"type": "duration", "seconds": 4}})
    return told({"text": said})


def _verbose(kind: str, said: str) -> dict[str, Any]:
    silent = segment(1, INVENTED, no_speech_prob=0.93, avg_logprob=-0.4)
    segments = [*([segment(0, said)] if said else []), silent]
    whole: dict[str, Any] = {"task": "transcribe", "language": "english", "duration": 4.0}
    whole |= {"text": said + INVENTED, "segments": segments}
    match kind:
        case "whispercpp":
            whole["text"] = f"{said}\n{INVENTED}\n"
        case "vllm":
            whole["duration"] = "4.0"
            whole["segments"] = [each | {"no_speech_prob": None} for each in segments[:-1]]
            whole["text"] = said
        case "localai":  # as old versions did
            whole = {"text": said, "segments": [_nanoseconds(each) for each in segments[:-1]]}
    return whole


def _nanoseconds(told_segment: dict[str, Any]) -> dict[str, Any]:
    times = {name: int(told_segment[name] * 1e9) for name in ("start", "end")}
    return {name: told_segment[name] for name in ("id", "text", "tokens")} | times
