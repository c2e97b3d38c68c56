"""Where servers are looked for, and how addresses are read."""

import pytest

from backends.registry import KINDS
from bot.cli.init.scan import USUAL, address, is_here, likely_kind, places


def test_an_address_is_read_as_people_write_it() -> None:
    """A person would have to know what a scheme is."""
    cases: list[tuple[str, str]] = [
        ("192.168.1.20:8188", "http://192.168.1.20:8188"),
        (" http://gpu-box:1234/ ", "http://gpu-box:1234"),
        ("https://gpu.example.net/comfy/", "https://gpu.example.net/comfy"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://gpu-box:1234/v1?token=canary#x", "http://gpu-box:1234/v1"),
    ]
    for given, read in cases:
        assert address(given) == read, given


def test_what_is_no_address_is_refused_without_repeating_it() -> None:
    """A password in an address would be written into the configuration, or onto the screen."""
    cases: list[str] = [
        "",
        "http://",
        "ftp://x",
        "http://a b",
        "http://x:99999",
        "http://me:canary@box:1",
    ]
    for given in cases:
        with pytest.raises(ValueError, match=r".") as caught:
            address(given)
        assert "canary" not in str(caught.value), given


def test_a_machine_alone_means_its_usual_ports() -> None:
    """A person would have to look up the port of each server."""
    found = list(places("http://gpu-box"))
    assert found[0] == "http://gpu-box:8188"
    assert len(found) == len(USUAL)
    for exact in ("http://gpu-box:5000", "https://gpu-box", "http://gpu-box/comfy"):
        assert list(places(exact)) == [exact]


def test_every_kind_of_server_is_expected_somewhere() -> None:
    """A new kind would never be looked for, or take the port of another."""
    for kind, made in KINDS.items():
        assert bool(made.ports) is made.needs_url, kind
        assert {USUAL[port] for port in made.ports} <= {kind}, kind
    assert likely_kind("http://gpu-box:5000") in KINDS


def test_this_machine_is_known_under_its_names() -> None:
    """One server found under two names would be planned as two."""
    assert is_here("localhost")
    assert is_here("127.0.0.1")
    assert is_here("::1")
    assert not is_here("192.0.2.1")  # an address that nobody has
    assert not is_here("no-such-name.invalid")
