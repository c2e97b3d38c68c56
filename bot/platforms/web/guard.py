"""What the web chat lets in: the pages it trusts. Pure."""

PAGE_POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' blob:; "  # blob: shows a picture before it is sent
    "media-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"  # Chromium then refuses innerHTML altogether
)
_SCHEMES = ("http", "https")

HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",  # no other page embeds these pictures
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def origin_allowed(origin: str | None, host: str, scheme: str | None = None) -> bool:
    """Return whether a request comes from this server's own page.

    Browsers name the page's origin on every WebSocket and POST, always in the same spelling;
    another site's or another port's is refused, and so is a client that names none. `scheme` is how
    a proxy was reached, if it says so.
    """
    schemes = (scheme,) if scheme in _SCHEMES else _SCHEMES
    return bool(host) and origin in {f"{each}://{host.lower()}" for each in schemes}
