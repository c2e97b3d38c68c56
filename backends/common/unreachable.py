"""Says in words why a server cannot be reached, without its address and without a library's terms."""

import errno
import socket
import ssl
from collections.abc import Mapping

import aiohttp

_BY_NUMBER: Mapping[int, str] = {
    errno.ECONNREFUSED: "nothing listens at its port",
    errno.EHOSTUNREACH: "there is no way to its machine",
    errno.ENETUNREACH: "there is no way to its network",
    errno.ETIMEDOUT: "its machine does not answer",
}
UNTRUSTED = (
    "its certificate is not trusted on this machine; SSL_CERT_FILE names a file of those that are"
)
NO_TLS = "it does not speak https; its address may begin with http://"


def why_unreachable(error: aiohttp.ClientError) -> str:
    """Return why a connection could not be made; the same failure is told in the same words."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UNTRUSTED
    if isinstance(cause, ssl.SSLError):
        return NO_TLS
    if isinstance(cause, socket.gaierror):
        return "the name of its machine is not known"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _BY_NUMBER[errno.ETIMEDOUT]
    known = _BY_NUMBER.get(getattr(cause, "errno", None) or 0)
    return known or f"no connection ({type(cause or error).__name__})"
