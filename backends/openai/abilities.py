"""What the models of text servers can do: as servers report it, and what a configuration wants. Pure."""

from backends.openai.flavour import Flavour, PictureForm, Served
from queueing.core.catalog import ModelSpec
from queueing.core.requests import Capability

WRITES = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
EMBEDS = frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING})


def able(served: Served) -> frozenset[Capability]:
    """Return what a server reports that a model can do."""
    reported = {
        Capability.TEXT_TO_TEXT: served.chats,
        Capability.VISION: served.chats and served.vision,
        Capability.EMBEDDING: served.embeds,
        Capability.IMAGE_EMBEDDING: served.embeds and served.embeds_pictures,
    }
    return frozenset(each for each, told in reported.items() if told)


def lacks(model: ModelSpec, served: Served, flavour: Flavour) -> str | None:
    """Return in words what the model is meant to do and the server cannot, None if nothing."""
    meant = model.capabilities
    if Capability.VISION in meant and served.vision is False:
        return "see pictures"
    if meant & EMBEDS and served.embeds is False:
        return "make embeddings"
    takes_none = served.embeds_pictures is False or flavour.embedding.pictures is PictureForm.NONE
    return "embed pictures" if Capability.IMAGE_EMBEDDING in meant and takes_none else None
