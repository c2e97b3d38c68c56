"""The chat page's own files as browsers get them: ready to paint, and cacheable for offline use.

The first paint needs one answer, because the styles are within the page. The modules and the
service worker's list are found in the scripts, so neither can name a file that is not there.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from bot.platforms.web.routes.assets import PAGE_POLICY, Assets, page_files, page_texts

_INDEX, _WORKER = "index.html", "sw.js"
_SHEET = re.compile(r' *<link rel="stylesheet" href="static/([\w-]+\.css)">\n')
_IMPORT = re.compile(r'\b(?:from|import) "\./([\w-]+\.js)"')
_SCRIPT = '<script type="module" src="static/'

Files = Mapping[str, tuple[str, bytes]]


def chat_assets() -> Assets:
    """Return the files of the chat page."""
    files = page_files()
    page, policy = _page(files)
    made = files | {_INDEX: ("text/html", page.encode())}
    version, worker = _worker(made, page_texts())
    made[_WORKER] = ("text/javascript", worker)
    return Assets(made, {_INDEX: {"Content-Security-Policy": policy, "X-Shell-Version": version}})


def _page(files: Files) -> tuple[str, str]:
    """Return the page with its styles and the names of its modules, and its content policy."""
    page = files[_INDEX][1].decode()
    styles = "".join(files[name][1].decode() for name in _SHEET.findall(page))
    digest = b64encode(sha256(styles.encode()).digest()).decode()
    links = "".join(
        f'<link rel="modulepreload" href="static/{name}">\n  ' for name in _modules(files, "app.js")
    )
    page = _SHEET.sub("", page).replace(_SCRIPT, f"<style>{styles}</style>\n  {links}{_SCRIPT}", 1)
    policy = PAGE_POLICY.replace("style-src 'self'", f"style-src 'self' 'sha256-{digest}'")
    return page, policy


def _modules(files: Files, first: str) -> list[str]:
    """Return a script and all that it imports at its start."""
    found = [first]
    for name in found:
        imported = _IMPORT.findall(files[name][1].decode())
        found += [each for each in dict.fromkeys(imported) if each not in found]
    return found


def _worker(files: Files, texts: Files) -> tuple[str, bytes]:
    """Return a version of what the service worker keeps, and the worker with the list of it."""
    kept = {"./": files[_INDEX]} | {
        f"static/{name}": file
        for name, file in files.items()
        if "/" not in name and name not in {_INDEX, _WORKER}
    }
    kept |= {f"texts/{language}.json": file for language, file in texts.items()}
    source = files[_WORKER][1]
    version = sha256(b"".join(body for _, body in kept.values()) + source).hexdigest()[:16]
    shell = {"version": version, "files": [*kept]}
    return version, f"const SHELL = {json.dumps(shell)};\n".encode() + source
