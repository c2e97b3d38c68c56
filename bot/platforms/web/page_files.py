"""The pages as static files: no build step, nothing fetched from elsewhere."""

from importlib.resources import files

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def page_files(folder: str = "page") -> dict[str, tuple[str, bytes]]:
    """Return the files of a page by name: their type and their bytes."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in (files("bot.platforms.web") / folder).iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = (kind, file.read_bytes())
    return found
