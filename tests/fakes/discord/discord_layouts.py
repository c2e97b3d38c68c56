"""Layouts on the fake Discord: messages made only of components ("components v2").

The flag `LAYOUT` makes a message a layout, for good. It then has neither text nor embeds of its
own, and shows only those of its files that a component refers to.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.fakes.discord.discord_state import LABEL_MOST, FakeFile, FakeMessage, Refusal, check_row

Json = dict[str, Any]

LAYOUT = 1 << 15  # the flag IS_COMPONENTS_V2
ROW, SECTION, TEXT, THUMBNAIL, GALLERY, FILE, SEPARATOR, CONTAINER = 1, 9, 10, 11, 12, 13, 14, 17
OTHERS = frozenset({SECTION, TEXT, THUMBNAIL, GALLERY, FILE, SEPARATOR, CONTAINER})
COMPONENTS_MOST = 40
ITEMS_MOST = 10
TEXTS_MOST = 4000
ALT_MOST = 1024
LEGACY = ("content", "embeds", "poll", "sticker_ids")


def parts(components: Sequence[Json]) -> Iterator[Json]:
    """Yield components and those inside them, in the order in which a person sees them."""
    for each in components:
        yield each
        yield from parts(each.get("components", []))
        yield from parts([each["accessory"]] if "accessory" in each else [])


def media(components: Sequence[Json]) -> Iterator[Json]:
    """Yield whatever refers to a file: the items of galleries, thumbnails and files."""
    for each in parts(components):
        if each["type"] == GALLERY:
            yield from each["items"]
        elif each["type"] in {THUMBNAIL, FILE}:
            yield each


def words(components: Sequence[Json]) -> str:
    return "\n".join(each["content"] for each in parts(components) if each["type"] == TEXT)


def becomes_layout(message: FakeMessage, body: Json) -> bool:
    """Return whether a message is a layout after a request. Refuses what Discord refuses."""
    flags = int(body.get("flags") or 0)
    was, will = bool(message.flags & LAYOUT), bool(flags & LAYOUT)
    if was and "flags" in body and not will:
        raise Refusal(400, 50035, "Invalid Form Body: IS_COMPONENTS_V2 cannot be removed")
    if not (was or will):
        if any(each["type"] in OTHERS for each in parts(body.get("components") or [])):
            raise Refusal(400, 50035, "Invalid Form Body: components without IS_COMPONENTS_V2")
        return False
    for name in LEGACY:
        given = body.get(name)
        kept = not was and name == "content" and name not in body and message.content
        if given or kept:
            raise _legacy(name)
    return True


def _legacy(name: str) -> Refusal:
    refusal = Refusal(400, 50035, "Invalid Form Body")
    error = f"The '{name}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2"
    refusal.errors = {name: {"_errors": [{"code": 0, "message": error}]}}
    return refusal


def check_layout(components: Sequence[Json], files: Sequence[FakeFile]) -> None:
    """Refuse a layout as Discord does, and one that hides a file that was sent with it."""
    found = list(parts(components))
    shown = list(media(components))
    ids = [each["custom_id"] for each in found if "custom_id" in each]
    texts = [each["content"] for each in found if each["type"] == TEXT]
    fits = (
        1 <= len(found) <= COMPONENTS_MOST
        and all(check_row(each) for each in found if each["type"] == ROW)
        and all(1 <= len(each["items"]) <= ITEMS_MOST for each in found if each["type"] == GALLERY)
        and all(len(each.get("description") or "") <= ALT_MOST for each in shown)
        and all(1 <= len(each.get("label", " ")) <= LABEL_MOST for each in found)
        and all(texts)
        and sum(map(len, texts)) <= TEXTS_MOST
        and len(ids) == len(set(ids))
    )
    if not fits:
        raise Refusal(400, 50035, "Invalid Form Body: the layout")
    named = [_name(each) for each in shown]
    names = [file.name for file in files]
    if len(set(names)) < len(names) or not set(named) <= set(names):
        raise Refusal(400, 50035, f"Invalid Form Body: {named} are not all among {names}")
    if set(names) - set(named):
        raise AssertionError(f"nobody sees {set(names) - set(named)}")


def _name(item: Json) -> str:
    url: str = (item.get("media") or item["file"])["url"]
    if not url.startswith("attachment://"):
        raise Refusal(400, 50035, f"Invalid Form Body: {url}")
    return url.removeprefix("attachment://")


def shown_file(item: Json, files: Sequence[FakeFile]) -> FakeFile:
    """Return the file that an item of a layout refers to."""
    return next(file for file in files if file.name == _name(item))
