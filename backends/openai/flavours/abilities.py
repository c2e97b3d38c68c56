"""What the models of text servers can do: as servers report it, and what a configuration wants. Pure."""

from backends.openai.flavours.flavour import Flavour, PictureForm, Served
from queueing.core.catalog import ModelSpec
from queueing.core.requests import Capability

WRITES = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
AUDIBLE = frozenset({Capability.SPEECH_TO_TEXT, Capability.TEXT_TO_SPEECH})
HONOURED = {
    Capability.TEXT_TO_SPEECH: frozenset({"voice", "speed", "instructions", "format"}),
    Capability.SPEECH_TO_TEXT: frozenset(
        {"language", "prompt", "temperature", "translate", "timestamps"}
    ),
}
"""The fields of requests that people choose and servers are told."""
EMBEDS = frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING})


def honoured(model: ModelSpec) -> frozenset[str]:
    """Return the fields of its requests that a model honours."""
    fields = (HONOURED[each] for each in HONOURED if each in model.capabilities)
    return frozenset[str]().union(*fields)


def able(served: Served) -> frozenset[Capability]:
    """Return what a server reports that a model can do."""
    reported = {
        Capability.TEXT_TO_TEXT: served.chats,
        Capability.VISION: served.chats and served.vision,
        Capability.EMBEDDING: served.embeds,
        Capability.IMAGE_EMBEDDING: served.embeds and served.embeds_pictures,
        Capability.SPEECH_TO_TEXT: served.hears,
        Capability.TEXT_TO_SPEECH: served.speaks,
    }
    return frozenset(each for each, told in reported.items() if told)


def lacks(model: ModelSpec, served: Served, flavour: Flavour) -> str | None:
    """Return in words what the model is meant to do and the server cannot, None if nothing."""
    meant = model.capabilities
    if Capability.VISION in meant and served.vision is False:
        return "see pictures"
    if meant & EMBEDS and served.embeds is False:
        return "make embeddings"
    if Capability.SPEECH_TO_TEXT in meant and served.hears is False:
        return "transcribe"
    if Capability.TEXT_TO_SPEECH in meant and served.speaks is False:
        return "read aloud"
    takes_none = served.embeds_pictures is False or flavour.embedding.pictures is PictureForm.NONE
    return "embed pictures" if Capability.IMAGE_EMBEDDING in meant and takes_none else None
