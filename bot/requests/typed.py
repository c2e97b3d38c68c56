"""The words of a request as its person typed them; pure."""

from queueing.core.requests import (
    Chat,
    Embed,
    Generation,
    Request,
    SpeechToText,
    TextToSpeech,
)


def typed(request: Request) -> str:
    """Return what a person typed for a request, "" for one without words."""
    match request:
        case Generation(original=original, prompt=prompt):
            return original or prompt
        case TextToSpeech(text=text):
            return text
        case Chat(messages=messages):
            return messages[-1].text
        case SpeechToText() | Embed():
            return ""
