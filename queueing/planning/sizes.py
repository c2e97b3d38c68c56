"""Sizes: how much work a request is, beside a usual one of its kind; pure."""

from math import log2

from queueing.core.requests import (
    Chat,
    Embed,
    EmbedInput,
    PictureInput,
    Request,
    TextToImage,
)

USUAL_STEPS = 25
USUAL_PIXELS = 1024 * 1024
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
    steps times pixels times count for pictures, prompt and answer length for texts, the tokens of a
    whole batch for embeddings. Options left open count as usual ones.
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
        case TextToImage():
            side = USUAL_PIXELS**0.5
            pixels = (request.width or side) * (request.height or side)
            steps = request.steps or USUAL_STEPS  # at any strength: servers run all of them
            return steps * pixels * request.count / (USUAL_STEPS * USUAL_PIXELS)
        case Chat():
            chars = sum(len(message.text) for message in request.messages)
            answer = request.max_tokens or USUAL_ANSWER_TOKENS
            return (answer + chars / CHARS_PER_TOKEN * PROMPT_SHARE) / USUAL_ANSWER_TOKENS
        case Embed():
            tokens = sum(map(_tokens, request.inputs))
            return (CALL_TOKENS + tokens) / (CALL_TOKENS + USUAL_EMBEDDED_TOKENS)


def _tokens(given: EmbedInput) -> float:
    match given:
        case str():
            return len(given) / CHARS_PER_TOKEN
        case PictureInput():
            return PICTURE_TOKENS + len(given.text) / CHARS_PER_TOKEN
    return len(given)
