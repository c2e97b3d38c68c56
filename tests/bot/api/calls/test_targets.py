"""Which addresses may be fetched, and every spelling of those that may not."""

import socket
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api.calls.fetcher import NotFetched, is_elsewhere, is_public, target_of


def test_an_address_is_asked_as_it_was_written() -> None:
    """A server would refuse a signed address that is written in another way."""
    cases: list[tuple[str, str]] = [
        ("https://example.com/", "https://example.com/"),
        (
            "HTTPS://Example.COM:443/a.png?b=%2F%2f&c=1+2#d",
            "https://example.com/a.png?b=%2F%2f&c=1+2",
        ),
        ("https://@example.com/", "https://example.com/"),
        ("https://example.com./", "https://example.com/"),
        ("https://bücher.example/ü.png", "https://xn--bcher-kva.example/%C3%BC.png"),
        ("https://a.b.xn--p1ai/", "https://a.b.xn--p1ai/"),
        ("https://1.2.3.example/", "https://1.2.3.example/"),
    ]
    for text, target in cases:
        assert str(target_of(text)) == target, text


FORBIDDEN = (
    "http://example.com/a.png",
    "ftp://example.com/a.png",
    "file:///etc/passwd",
    "https:example.com",
    "https:///a.png",
    "https://",
    "//example.com",
    "",
    # a name or password
    "https://user@example.com/",
    "https://user:pass@example.com/",
    "https://example.com\\@127.0.0.1/",
    "https://example.com@127.0.0.1/",
    # ports
    "https://example.com:80/",
    "https://example.com:8443/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:x/",
    # IP addresses
    "https://93.184.216.34/",
    "https://127.0.0.1/",
    "https://127.0.0.1./",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.0x1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[fe80::1%25eth0]/",
    "https://[2606:2800:220:1:248:1893:25c8:1946]/",
    # the same in other letters
    "https://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "https://127。0。0。1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://ⓛocalhost/",
    # names of the local network
    "https://localhost/",
    "https://localhost./",
    "https://router/",
    "https://example..com/",
    "https://example.com../",
    "https://.example.com/",
    "https://-.example.com/",
    "https://example.com%00.example/",
    "https://exa%6dple.com/",
    f"https://{'a' * 64}.example/",
    f"https://{'a.' * 130}example/",
    # what would change the request itself
    "https://example.com/a\r\nX-Evil: 1",
    "https://example.com/a b",
    "https://exam\tple.com/",
    "https://example.com/\x00",
    "https://example.com/" + "a" * 9000,
)


def test_what_may_not_be_asked_is_not_looked_up(subtests: pytest.Subtests) -> None:
    """A request could make the bot reach what only the bot can reach."""
    for text in FORBIDDEN:
        with subtests.test(text[:80]), pytest.raises(NotFetched):
            target_of(text)


@given(
    st.one_of(
        st.text(), st.text().map("https://{}".format), st.from_regex(r"https://[\w.:@%/\[\]]*")
    )
)
def test_whatever_is_written_only_a_name_on_the_internet_is_left(text: str) -> None:
    """A parser could read an address differently from the one that fetches it."""
    try:
        target = target_of(text)
    except NotFetched:
        return
    host = target.raw_host or ""
    assert (target.scheme, target.port, target.raw_user) == ("https", 443, None)
    assert "." in host
    assert host.isascii()
    with pytest.raises(ValueError, match="does not appear"):
        ip_address(host)
    with pytest.raises(OSError, match="illegal"):
        socket.inet_aton(host)


def test_a_machine_on_the_internet_is_public() -> None:
    """Nothing could be fetched at all."""
    for text in ("93.184.216.34", "1.1.1.1", "2606:2800:220:1::1", "2a00:1450::1"):
        assert is_public(text), text
        assert is_elsewhere(text), text


PRIVATE = (
    # this machine, and none
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "::1",
    "::",
    # private networks, providers' own (CGNAT), link-local with the metadata of clouds
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    # multicast, broadcast, reserved, documentation, benchmarks, relays
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    "192.88.99.1",
    "ff02::1",
    "ff0e::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "4000::1",
    # IPv4 within IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo
    "::ffff:127.0.0.1",
    "::ffff:93.184.216.34",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::93.184.216.34",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::1",
    "2002:5db8:d822::1",
    "2001:0:53aa:64c:0:fbff:5601:101",
    "2001:10::1",
    "2001:20::1",
    # not an address
    "",
    "localhost",
    "2130706433",
    "0x7f.1",
)


def test_everything_else_is_not() -> None:
    """Each of these leads to what only this machine can reach."""
    assert [text for text in PRIVATE if is_public(text) or is_elsewhere(text)] == []


def test_an_address_of_this_machine_is_not_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services that listen on every address of a public server would be reachable from within."""
    monkeypatch.setattr("bot.api.calls.fetcher.is_public", lambda _text: True)
    assert not is_elsewhere("127.0.0.1")
    assert is_elsewhere("93.184.216.34")
