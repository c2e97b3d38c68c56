"""The image and compose.yaml: nothing unpinned, nothing open, no password that anyone knows."""

import re
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.config.loader import Config, ConfigError, load
from bot.config.reading import environment
from bot.config.reading.values import DatabaseServer
from bot.config.sections import MetricsConfig

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PAGE = (ROOT / "docs/containers.md").read_text(encoding="utf-8")
MONITORING = ROOT / "docs/monitoring/compose"
PINNED = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")
OWN = "usher"
WIDENING = {"privileged", "network_mode", "pid", "ipc", "devices", "userns_mode"}
WRITTEN_BY_PEOPLE = {"./config.yaml", "./secrets/usher"}


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Return the source of each of a service's files by its path in the container."""
    found = {}
    for volume in service["volumes"]:
        if isinstance(volume, str):
            source, target = volume.split(":")[:2]
            found[target] = source
        else:
            found[volume["target"]] = volume["source"]
    return found


# ---------------------------------------------------------------- what is built and fetched


def test_every_image_is_named_by_its_digest() -> None:
    """A build next month would have another base image than the one that was tested."""
    base = re.search(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE)
    assert base is not None
    images = [each["image"] for name, each in SERVICES.items() if name != OWN]
    assert len(images) == 3
    assert [name for name in (base[1], *images) if not PINNED.fullmatch(name)] == []
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}


def test_what_the_image_copies_is_let_through_and_no_more() -> None:
    """The build would end at a missing file, or a config.yaml with its tokens be in the image."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    through = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in through)
    named = re.search(r"^COPY (locks.*) /$", DOCKERFILE, re.MULTILINE)
    assert named is not None
    assert set(named[1].split()) <= through
    packages = {"backends", "bot", "queueing"}
    read = {"LICENSE", "config.example.yaml", "pyproject.toml"}
    assert through == packages | set(named[1].split()) | read


def test_the_image_runs_as_nobody_in_particular() -> None:
    """A bot that was taken over would be root, with the rights of a mounted folder."""
    last = DOCKERFILE.split("FROM ${BASE}")[-1]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "pip install" not in last


# ---------------------------------------------------------------- what the containers may do


def test_a_container_may_change_nothing_but_its_volumes() -> None:
    """An intruder could stay in the container, or work their way out of it."""
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["pids_limit"], name
        assert service["tmpfs"], name
        assert not WIDENING & service.keys(), name
        assert bool(service.get("cap_add")) is (name == "postgres"), name


def test_usher_has_a_bound_on_memory_wherever_it_is_started() -> None:
    """A library that reads a file without end would exhaust the machine's memory."""
    assert SERVICES["usher"]["mem_limit"] == "4g"
    units = list((ROOT / "bot/cli/init").glob("*.service"))
    assert len(units) == 2
    for unit in units:
        text = unit.read_text()
        assert "MemoryMax=4G" in text, unit
        assert "Restart=" in text, unit


def test_a_container_is_watched_and_started_again() -> None:
    """A container that hangs would look like one that works."""
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["logging"]["options"]["max-size"], name


def test_ports_are_published_to_this_machine_only() -> None:
    """A database or a page meant for this machine would be on the network."""
    published = [port for each in SERVICES.values() for port in each.get("ports", [])]
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert [name for name, each in SERVICES.items() if "expose" in each] == []


def test_the_database_is_reached_by_usher_alone() -> None:
    """Another container could try passwords."""
    assert "ports" not in SERVICES["postgres"]
    beside = [name for name, each in SERVICES.items() if "database" in each["networks"]]
    assert beside == [OWN, "postgres"]
    assert COMPOSE["networks"]["database"] == {"internal": True}


def test_only_usher_starts_without_a_profile() -> None:
    """A person who wants the bot would get three additional servers."""
    assert [name for name, each in SERVICES.items() if "profiles" not in each] == [OWN]
    assert SERVICES[OWN]["depends_on"]["postgres"]["required"] is False


# ---------------------------------------------------------------- secrets


def test_every_secret_is_a_file_that_must_be_there() -> None:
    """A password in a public file would open every installation."""
    for name, service in SERVICES.items():
        named: dict[str, str] = service.get("environment", {})
        secret = {key for key in named if re.search("PASSWORD|TOKEN|SECRET|KEY", key)}
        assert all(key.endswith("_FILE") for key in secret), name
        files = {named[key].removeprefix("/run/secrets/") for key in secret}
        mounted = set(service.get("secrets", []))
        assert files <= mounted, name
        places = {each: COMPOSE["secrets"][each]["file"] for each in mounted}
        assert all(file.startswith("./secrets/") for file in places.values()), places
    assert "environment" not in str(COMPOSE["secrets"])


def test_usher_does_not_start_without_its_folder_of_secrets() -> None:
    """Docker would create an empty folder, owned by root, in place of the missing one."""
    binds = [each for each in SERVICES[OWN]["volumes"] if isinstance(each, dict)]
    assert {each["source"] for each in binds} == WRITTEN_BY_PEOPLE
    assert all(each["read_only"] and not each["bind"]["create_host_path"] for each in binds)
    assert mounts(SERVICES[OWN])[str(environment.FOLDER)] == "./secrets/usher"


def test_secrets_come_into_no_commit() -> None:
    """`git add .` would publish them."""
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/config.yaml", "/secrets/", "/usher.env"} <= set(ignored)


# ---------------------------------------------------------------- what fits together


def test_every_file_that_is_mounted_lies_here() -> None:
    """Docker would create a folder of that name, and the server end with a puzzling error."""
    for target, source in chain.from_iterable(mounts(each).items() for each in SERVICES.values()):
        if not source.startswith("./"):
            assert source in COMPOSE["volumes"], source
        elif source not in WRITTEN_BY_PEOPLE:
            assert (ROOT / source).exists(), source
            assert (ROOT / source).is_dir() is not bool(Path(target).suffix), source


def documented(folder: Path, monkeypatch: pytest.MonkeyPatch, *secrets: str) -> Config:
    """Return the configuration that the page shows, in parts, with those secrets."""
    mounted = folder / "secrets"
    mounted.mkdir()
    monkeypatch.setattr(environment, "FOLDER", mounted)
    for number, name in enumerate(secrets):
        (mounted / name).write_text(f"{number}8ab1c0ffee{number}5ca1ab1e0ddba11\n")
    parts = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "config.yaml").write_text("\n".join(parts), encoding="utf-8")
    return load(folder / "config.yaml", {})


def test_the_configuration_on_the_page_fits_the_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who copies it would get a bot that no port leads to, or that finds no database."""
    secrets = ("WEB_TOKEN", "POSTGRES_PASSWORD", "METRICS_TOKEN")
    config = documented(tmp_path, monkeypatch, *secrets)
    assert config.chats.web is not None
    assert config.api is not None
    published = {port.rsplit(":", 1)[1] for port in SERVICES[OWN]["ports"]}
    assert published == {str(config.chats.web.port), str(config.api.port)}
    assert {config.chats.web.host, config.api.host} == {"0.0.0.0"}
    assert isinstance(config.database, DatabaseServer)
    given = SERVICES["postgres"]["environment"]
    address = config.database.url.get_secret_value()
    assert address.startswith(f"postgresql://{given['POSTGRES_USER']}:")
    assert address.endswith(f"@postgres/{given['POSTGRES_DB']}")


def test_the_page_shows_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everyone who copies the page would have the same one."""
    with pytest.raises(ConfigError) as caught:
        documented(tmp_path, monkeypatch)
    missed = re.findall(r"variable (\w+) is not set", str(caught.value))
    assert set(missed) == {"WEB_TOKEN", "POSTGRES_PASSWORD", "METRICS_TOKEN"}
    assert all(f"secrets/usher/{name}" in PAGE for name in missed)
    assert all(each["file"].removeprefix("./") in PAGE for each in COMPOSE["secrets"].values())


def test_prometheus_reads_ushers_metrics() -> None:
    """The dashboards would stay empty."""
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = settings["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"{OWN}:{MetricsConfig().port}"]}]
    (secret,) = SERVICES["prometheus"]["secrets"]
    assert job["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}
    assert {"monitoring"} <= set(SERVICES[OWN]["networks"]) & set(
        SERVICES["prometheus"]["networks"]
    )
    place = next(
        target
        for target, source in mounts(SERVICES["prometheus"]).items()
        if source == "./docs/monitoring"
    )
    rules = [
        f"{place}/{file.name}"
        for file in MONITORING.parent.glob("*.y*ml")
        if "groups" in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]
    read = settings["rule_files"]
    assert all(Path(pattern).parent == Path(place) for pattern in read)
    assert [rule for rule in rules if not any(fnmatch(rule, each) for each in read)] == []


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    """A person would have to set up by hand what already exists."""
    source = yaml.safe_load((MONITORING / "grafana-datasource.yml").read_text(encoding="utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    boards = yaml.safe_load((MONITORING / "grafana-dashboards.yml").read_text(encoding="utf-8"))
    place = boards["providers"][0]["options"]["path"]
    assert mounts(SERVICES["grafana"])[place] == "./docs/monitoring"
