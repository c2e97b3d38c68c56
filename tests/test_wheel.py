"""The wheel: complete, under one name, and it runs without the rest of the repository."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest

import tasks
from backends.media import videos
from bot.version import version
from tests.fakes.process import serving

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[1]
PACKAGES = ("backends", "bot", "queueing")
LEFT_OUT = {"__pycache__", ".DS_Store"}
COMMANDS = {"usher", "usher-bot"}
CONFIG = """\
hosts: {{home: {{vram: 24GB, backends: {{comfy: {{kind: comfyui, url: "{url}"}}}}}}}}
models: {{sdxl: {{backends: [comfy], workflow: sdxl.json}}}}
chats: {{web: {{port: 0}}}}
"""


def built(folder: Path, where: Path, kind: str) -> Path:
    """Build in a folder what pip and uv would; return the file."""
    done(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(where), cwd=folder)
    (file,) = where.iterdir()
    return file


def done(*command: str, cwd: Path, timeout_s: int = 120) -> str:
    """Run a command outside the repository's environment; return what it printed."""
    ended = subprocess.run(
        command,
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def shipped() -> Iterator[str]:
    """Yield the path in the wheel of each file of the three packages."""
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*"):
            if file.is_file() and not LEFT_OUT & set(file.parts):
                yield f"usher_bot/{file.relative_to(ROOT).as_posix()}"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts of an environment with only the wheel.

    The libraries are those of this environment, so that nothing is downloaded. Beside them are
    other packages with the names of Usher's own.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", str(scripts / "python"))
    done(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel), cwd=folder)
    places = {"base": str(folder), "platbase": str(folder)}
    libraries = Path(sysconfig.get_path("purelib", vars=places))
    lent = "\n".join(path for path in sys.path if path.endswith("site-packages"))
    (libraries / "lent.pth").write_text(lent, encoding="utf-8")
    for name in PACKAGES:
        (libraries / name).mkdir()
        (libraries / name / "__init__.py").write_text("OF = 'another'\n", encoding="utf-8")
    return scripts


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    """An installed bot would lack a migration, a workflow or the page."""
    own = {f"usher_bot/{file.name}" for file in (ROOT / "usher_bot").glob("*.py")}
    own.add("usher_bot/config.example.yaml")
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == own | set(shipped())
    assert len(own) == 3


def test_one_name_and_its_commands_come_to_a_persons_machine(wheel: Path) -> None:
    """Packages called bot or backends would replace those of another program, or be replaced."""
    packed = ZipFile(wheel)
    info = f"usher_bot-{version()}.dist-info"
    assert {name.split("/")[0] for name in packed.namelist()} == {"usher_bot", info}
    entries = ConfigParser()
    entries.read_string(packed.read(f"{info}/entry_points.txt").decode())
    assert entries.sections() == ["console_scripts"]
    assert set(entries["console_scripts"]) == COMMANDS


def test_the_source_archive_makes_the_same_wheel(
    sdist: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People who build it themselves would run something that no one has tested."""
    done(sys.executable, "-m", "tarfile", "--extract", str(sdist), str(tmp_path), cwd=tmp_path)
    (folder,) = tmp_path.iterdir()
    monkeypatch.setattr(tasks, "ROOT", folder)
    monkeypatch.setattr(tasks, "PYTHON", sys.executable)
    monkeypatch.setattr(tasks, "prepare", lambda _: None)
    assert tasks.main(["build"]) == 0
    assert {file.name for file in (folder / "dist").iterdir()} == {sdist.name, wheel.name}
    assert (folder / "dist" / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    "command", [["usher", "--version"], ["usher-bot", "version"], ["python", "-m", "usher_bot"]]
)
def test_it_is_started_by_each_of_its_names(
    command: list[str], installed: Path, tmp_path: Path
) -> None:
    """`uvx usher-bot` would find no command of that name."""
    words = [str(installed / command[0]), *command[1:]]
    told = done(*words, *(["version"] if "-m" in command else []), cwd=tmp_path)
    assert told == f"usher {version()}\n"


def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """A newcomer's first command would end with a module that is not found."""
    # A sound goes through the helper, a process of its own, and takes it less time than a video.
    said, made = ("/speak a cat", ".mp3") if videos.available() else ("/image flux cat", ".png")
    demo = [str(installed / "usher-bot"), "demo", "--speed", "100", "--out", "out", "--say", said]
    told = done(*demo, cwd=tmp_path, timeout_s=280)
    assert [file.suffix for file in (tmp_path / "out").iterdir()] == [made], told


def test_every_setting_is_shown_by_the_wheel(installed: Path, tmp_path: Path) -> None:
    """A person without the repository could not know them."""
    told = done(str(installed / "usher"), "example", cwd=tmp_path)
    assert told == (ROOT / "config.example.yaml").read_text(encoding="utf-8")


async def test_check_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Shipped workflows and migrations would be looked for in the wrong place."""
    async with serving("comfyui") as url:
        (tmp_path / "config.yaml").write_text(CONFIG.format(url=url), encoding="utf-8")
        told = done(str(installed / "usher"), "check", cwd=tmp_path)
    assert "sdxl" in told


def test_others_packages_of_the_same_names_stay_theirs(installed: Path, tmp_path: Path) -> None:
    """Another program in the same environment would import Usher's modules in place of its own."""
    code = "import bot, backends, queueing; print(bot.OF, backends.OF, queueing.OF)"
    python = str(installed / "python")
    assert done(python, "-c", code, cwd=tmp_path).split() == ["another"] * 3


def test_a_checkout_starts_by_the_installed_name_too(tmp_path: Path) -> None:
    """An editable installation would not find the packages beside that name."""
    code = f"import sys; sys.path.append({str(ROOT)!r}); sys.argv[1:] = ['version']\n"
    code += "from usher_bot.__main__ import main; main()"
    assert done(sys.executable, "-c", code, cwd=tmp_path) == f"usher {version()}\n"
