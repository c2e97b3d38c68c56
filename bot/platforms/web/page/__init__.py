"""The page of the web chat as static files: no build step, nothing fetched from elsewhere.

`bot.platforms.web.server` serves exactly the files in this folder.
"""

from importlib.resources import files

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def page_files(package: str = __name__) -> dict[str, tuple[str, bytes]]:
    """Return the files of a page's folder by name: their type and their bytes."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in files(package).iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = (kind, file.read_bytes())
    return found
