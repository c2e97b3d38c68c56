"""The setting `proxy`, and the proxies of the environment that it stands for if it is left out."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator

from backends.common import proxies
from backends.common.proxies import Proxies

ENVIRONMENT = "environment"
NONE = "none"
_UNUSABLE = "no request goes through it: set `proxy` to an HTTP proxy, or to none"


def _proxy(value: object) -> str:
    """Return an address in full, `none` or `environment`."""
    if value in (None, False, NONE):
        return NONE
    text = value.strip() if isinstance(value, str) else ""
    return text if text == ENVIRONMENT else proxies.usable(text)


Proxy = Annotated[str, BeforeValidator(_proxy)]
"""The address of an HTTP proxy, `none`, or `environment`."""


def chosen(proxy: str, environ: Mapping[str, str]) -> Proxies:
    """Return the proxies to use. NO_PROXY applies to a configured proxy as well."""
    if proxy == NONE:
        return proxies.NO_PROXIES
    named, _ = proxies.of_environment(environ)
    return named if proxy == ENVIRONMENT else replace(named, http=proxy, https=proxy)


def unusable(proxy: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each variable of the environment that names an unusable proxy."""
    if proxy == ENVIRONMENT:
        for variable in proxies.of_environment(environ)[1]:
            yield f"{variable}; {_UNUSABLE}"
