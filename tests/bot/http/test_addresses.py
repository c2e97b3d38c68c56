"""Addresses to listen at and to call."""

import pytest

from bot.http.addresses import host_and_port, is_every_address, joined


def test_an_address_is_read_with_a_port_or_without() -> None:
    """An address of six groups has colons that separate no port."""
    cases: list[tuple[str, str, int]] = [
        ("10.0.0.7", "10.0.0.7", 0),
        ("10.0.0.7:8124", "10.0.0.7", 8124),
        ("gpu-1.lan:1", "gpu-1.lan", 1),
        ("::1", "::1", 0),
        ("[fd00::7]", "fd00::7", 0),
        ("[fd00::7]:8124", "fd00::7", 8124),
    ]
    for text, host, port in cases:
        assert host_and_port(text) == (host, port), text
        assert host_and_port(joined(host, port)) == (host, port), text


def test_what_is_no_address_is_refused() -> None:
    """A process would listen elsewhere than intended, or crash."""
    cases: list[str] = [
        "",
        ":80",
        "a:",
        "a:b",
        "a:65536",
        "a b",
        "http://a",
        "[10.0.0.7]:1",
        "a:1:2",
        "[::1",
    ]
    for text in cases:
        with pytest.raises(ValueError, match=r"contains no host|is not a port"):
            host_and_port(text)


def test_an_address_that_means_all_is_known() -> None:
    """The others would be told to call an address that means themselves."""
    assert [each for each in ("0.0.0.0", "::", "10.0.0.7", "lan") if is_every_address(each)] == [
        "0.0.0.0",
        "::",
    ]
