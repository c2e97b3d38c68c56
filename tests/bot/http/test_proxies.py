"""Calls that leave the network use the proxy of their address, and failures name the proxy."""

import asyncio
import base64
from pathlib import Path

import pytest

from backends.common.http import Http
from backends.common.proxies import Proxies, shown
from backends.hardware.host_control import NetworkHostControl
from bot.api.calls.fetcher import Fetcher, NotFetched
from bot.core.errors import ChatUnavailable
from bot.platforms.discord.platform import Discord
from bot.platforms.telegram.platform import Telegram, telegram_account
from queueing.core.errors import Unavailable
from queueing.core.specs import HostSpec, SleepSpec
from tests.bot.api.calls.test_fetcher import FOUND, MOST, URL, local
from tests.bot.api.jobs.test_webhooks import Receiver, listening
from tests.bot.api.whole_api import CONFIG, running
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.discord.discord_bot import running as on_discord
from tests.bot.platforms.discord.test_discord_calls import called_with
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.images_example import FakeNames, ImagesExample, trusting
from tests.fakes.ports import port_of
from tests.fakes.programs.http_proxy import FakeProxy
from tests.fakes.telegram.telegram import FakeTelegram

API = "http://bot-api.example.org"
TELEGRAM = "1234567890:AAEhBP0av28fGh5nB3kdjYtQwErTyUiOpLk"
DISCORD = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcDE.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
HOOKS = "http://hooks.example.org"


def both(url: str) -> Proxies:
    return Proxies(http=url, https=url)


async def test_telegram_is_reached_through_it() -> None:
    """Behind a company's proxy, the bot could not connect at all."""
    async with FakeTelegram() as fake, FakeProxy(fake.url).serving() as proxy:
        bot = Telegram(fake.token, base_url=f"{API}/bot", proxies=both(proxy.url))
        assert "logged in" in await bot.check()
        assert (await telegram_account(fake.token, API, both(proxy.url))).name.startswith("@")
        assert proxy.asked[0].startswith(f"POST {API}/bot")
        near = Telegram(fake.token, base_url=fake.base_url, proxies=both("http://127.0.0.1:9"))
        assert "logged in" in await near.check()


async def test_telegram_ignores_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library fails on desktops' values, and sends this machine's servers through a proxy."""
    for name, value in (
        ("ALL_PROXY", "socks://127.0.0.1:1080/"),
        ("HTTP_PROXY", "http://127.0.0.1:9"),
        ("no_proxy", "localhost,::1,fd00::/8,*.lan"),
    ):
        monkeypatch.setenv(name, value)
    async with FakeTelegram() as fake:
        assert "logged in" in await Telegram(fake.token, base_url=fake.base_url).check()
        assert (await telegram_account(fake.token, fake.url)).name.startswith("@")


async def test_discord_is_reached_through_it_with_its_files() -> None:
    """Commands would arrive, but not the files that people attach."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, FakeProxy(fake.url).serving() as proxy:
        chat = Discord(fake.token, proxies=both(proxy.url))
        assert "logged in" in await chat.check()
        async with on_discord(fake, handler, chat):
            person = fake.person(7)
            sent = person.file("cat.webp", b"pixels", "image/webp")
            call = await called_with(sent, person, handler)
            before = len(proxy.asked)
            assert await call.files[0].read() == b"pixels"
            assert len(proxy.asked) > before
            await chat.send("100", says("hello"))
    assert proxy.asked
    assert not any(line.startswith("CONNECT") for line in proxy.asked)  # the fake has no TLS


async def test_a_proxy_that_fails_is_named() -> None:
    """The operator would look for the fault at Telegram."""
    nobody = FakeProxy("")
    gone = f"127.0.0.1:{port_of(nobody)}"
    async with FakeProxy("", status="407 Login").serving() as proxy:
        for url, why in (
            (f"http://ada:geheim@{gone}", "attempts failed"),
            (proxy.url, "407 Login"),
        ):
            with pytest.raises(ChatUnavailable, match="cannot reach Telegram: ") as caught:
                await Telegram(TELEGRAM, proxies=both(url)).check()
            assert f" (through the proxy {shown(url)})" in str(caught.value)
            assert why in str(caught.value)
            assert "geheim" not in str(caught.value)
            with pytest.raises(ChatUnavailable, match="proxy") as caught:
                await Discord(DISCORD, proxies=both(url)).check()
            assert "geheim" not in str(caught.value)


async def test_a_server_in_another_network_is_reached_through_it() -> None:
    """A rented server would be offline, and nobody would learn why."""
    async with listening(Receiver()) as server:
        async with FakeProxy(server.url, login="ada:p%40ss@").serving() as proxy:
            http = Http("http://rented.example.org:8188", proxy=proxy.url)
            assert await http.post_json("/free", {}) is None
            await http.aclose()
        assert proxy.asked == ["POST http://rented.example.org:8188/free"]
        login = base64.b64encode(b"ada:p@ss").decode()
        assert proxy.logins[0].endswith(f"Basic {login}")
    async with FakeProxy("", status="403 Forbidden").serving() as proxy:
        http = Http("https://rented.example.org", proxy=proxy.url)
        with pytest.raises(Unavailable, match=r"status 403 \(through the proxy http://127"):
            await http.get_json("/models")
        await http.aclose()


async def test_a_server_behind_a_proxy_is_never_taken_for_stopped() -> None:
    """A connection to the proxy says nothing about the server, which would be marked as stopped."""
    http = Http("http://rented.example.org:1", proxy="http://127.0.0.1:9")
    waiting = asyncio.create_task(http.gone())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_an_image_is_fetched_at_the_address_that_was_checked(tmp_path: Path) -> None:
    """A proxy would resolve a hostile name again, perhaps to a server inside its own network."""
    server = ImagesExample(FOUND)
    async with (
        server.serving(tmp_path),
        FakeProxy(f"http://127.0.0.1:{server.port}").serving() as proxy,
    ):
        names = FakeNames(["127.0.0.1"], ["10.0.0.1"])
        fetcher = Fetcher(
            lookup=names, allows=local, tls=trusting(), port=server.port, proxies=both(proxy.url)
        )
        assert await fetcher.get(URL, MOST) == b"pixels"
        assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port}"]
        assert server.names == ["pictures.example"]
        assert "\r\nHost: pictures.example\r\n" in server.asked[0]
        with pytest.raises(NotFetched):
            await fetcher.get(URL, MOST)
    assert len(proxy.asked) == 1


async def test_webhooks_go_through_it(tmp_path: Path) -> None:
    """A program elsewhere would never be told that its job has ended."""
    async with listening(Receiver()) as program, FakeProxy(program.url).serving() as proxy:
        text = f"proxy: {proxy.url}\n{CONFIG.rstrip()}\n  webhooks: ['{HOOKS}']\n"
        async with running(tmp_path, text) as api:
            body = {"model": "flux", "prompt": "cat", "webhook": f"{HOOKS}/in"}
            async with api.session.post(f"{api.url}/jobs", json=body) as answer:
                assert answer.status == 202
            assert (await program.next())[1]
        assert proxy.asked == [f"POST {HOOKS}/in"]
        sleep = SleepSpec(after_s=60.0, webhook=f"{HOOKS}/sleep")
        host = HostSpec(name="gpu-2", vram_mb=1, backends=(), sleep=sleep)
        await NetworkHostControl(both(proxy.url)).sleep(host)
        assert proxy.asked[1:] == [f"POST {HOOKS}/sleep"]
