"""Sizes: how much work a request is, beside a usual one of its kind; pure."""

from math import log2

from queueing.core.requests import (
    Chat,
    Embed,
    EmbedInput,
    PictureInput,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

USUAL_STEPS = 25
USUAL_PIXELS = 1024 * 1024
USUAL_FILM_PIXELS = 832 * 480
USUAL_FILM_S = 5.0
USUAL_FPS = 16.0
USUAL_MUSIC_S = 60.0
USUAL_SPEECH_CHARS = 400
USUAL_ANSWER_TOKENS = 400
CHARS_PER_TOKEN = 4
USUAL_EMBEDDED_TOKENS = 250  # a passage of a thousand characters
CALL_TOKENS = 250  # what a call costs besides its tokens
PICTURE_TOKENS = 500
PROMPT_SHARE = 0.05  # reading a token costs about this share of writing one
USUAL_SIZE = ""  # the class of a request about which nothing is known: work 1


def size_class(request: Request) -> str:
    """Return the class of requests that take about as long as this one, such as "1.41".

    It names the work in units of a usual request of its kind, in steps of the square root of two:
    steps times pixels times count for pictures, steps times pixels times frames for films, steps
    times seconds for music, characters for speech, prompt and answer length for texts, the tokens of
    a whole batch for embeddings. Options left open count as usual ones. The length of a recording is
    not in its request: transcribing counts as usual.
    """
    return f"{2 ** (round(2 * log2(_work(request))) / 2):.4g}"


def work_of(size: str) -> float:
    """Return the work a size class stands for; 1 for an unknown one."""
    try:
        return float(size) or 1.0
    except ValueError:
        return 1.0


def _work(request: Request) -> float:
    match request:
        case TextToImage() | TextToVideo() | TextToAudio():
            steps = request.steps or USUAL_STEPS  # at any strength: servers run all of them
            return steps / USUAL_STEPS * _extent(request)
        case TextToSpeech():
            return len(request.text) / USUAL_SPEECH_CHARS
        case SpeechToText():
            return 1.0
        case Chat():
            chars = sum(len(message.text) for message in request.messages)
            answer = request.max_tokens or USUAL_ANSWER_TOKENS
            return (answer + chars / CHARS_PER_TOKEN * PROMPT_SHARE) / USUAL_ANSWER_TOKENS
        case Embed():
            tokens = sum(map(_tokens, request.inputs))
            return (CALL_TOKENS + tokens) / (CALL_TOKENS + USUAL_EMBEDDED_TOKENS)


def _extent(request: TextToImage | TextToVideo | TextToAudio) -> float:
    """Return the pixels, frames or seconds a request generates, in units of the usual ones."""
    if isinstance(request, TextToAudio):
        return (request.seconds or USUAL_MUSIC_S) / USUAL_MUSIC_S
    usual = USUAL_PIXELS if isinstance(request, TextToImage) else USUAL_FILM_PIXELS
    side = usual**0.5
    pixels = (request.width or side) * (request.height or side) / usual
    if isinstance(request, TextToImage):
        return pixels * request.count
    frames = (request.seconds or USUAL_FILM_S) * (request.fps or USUAL_FPS)
    return pixels * frames / (USUAL_FILM_S * USUAL_FPS)


def _tokens(given: EmbedInput) -> float:
    match given:
        case str():
            return len(given) / CHARS_PER_TOKEN
        case PictureInput():
            return PICTURE_TOKENS + len(given.text) / CHARS_PER_TOKEN
    return len(given)
