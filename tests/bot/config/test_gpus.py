"""Machines with several GPUs: what their configuration means, and which mistakes are reported."""

import textwrap

from bot.config.loader import parse
from queueing.core.specs import divided
from tests.bot.config.configs import problems

TOWER = """\
hosts:
  tower:
    margin: 0.5
    gpus:
      0: {vram: 24GB, gpu: 0}
      1: {vram: 16GB, gpu: 1, margin: 1}
    backends:
      llama: {kind: demo, gpus: [1, 0], split: [1, 2]}
      comfy: {kind: demo, gpus: [1]}
models:
  qwen: {backends: [llama], vram: 15GB}
  own: {backends: [llama], vram: 6GB, gpus: [0]}
  flux: {backends: [comfy], vram: 12GB}
chats:
  web:
"""


def changed(old: str, new: str) -> str:
    """Return the machine with one thing written differently."""
    assert old in TOWER
    return TOWER.replace(old, new)


def test_every_gpu_is_a_budget_of_its_own() -> None:
    """An image model would be given the memory of a GPU that its server cannot use."""
    catalog = parse(TOWER, {}).catalog()
    left, right = catalog.hosts["tower/0"], catalog.hosts["tower/1"]

    assert (left.gpu, left.usable_mb) == ("0", 12 * 1024)
    assert (right.gpu, right.usable_mb) == ("1", 16 * 1024)
    assert catalog.hosts_of == {"llama": ("tower/0", "tower/1"), "comfy": ("tower/1",)}
    assert catalog.gpus("tower") == ("tower/0", "tower/1")
    assert catalog.gpus("tower/1") == ("tower/1",)


def test_a_model_counts_on_each_gpu_with_its_share() -> None:
    """A GPU would overflow because a model was planned on the other one."""
    catalog = parse(TOWER, {}).catalog()
    models = catalog.models

    def shares(model: str, server: str) -> dict[str, int]:
        spec = models[model]
        return dict(divided(spec.vram_mb or 0, catalog.parts_of(spec, server)))

    assert shares("qwen", "llama") == {"tower/0": 10240, "tower/1": 5120}
    assert shares("own", "llama") == {"tower/0": 6144}
    assert shares("flux", "comfy") == {"tower/1": 12288}


def test_a_machine_with_one_gpu_is_a_host_as_before() -> None:
    """Existing configurations would change their meaning."""
    text = "hosts: {h: {vram: 1GB, backends: {b: {kind: demo, discover: true}}}}"
    catalog = parse(text, {}).catalog()

    assert list(catalog.hosts) == ["h"]
    assert not catalog.has_gpus
    assert catalog.hosts["h"].machine == ""


def test_a_contradiction_between_gpus_servers_and_models_is_told() -> None:
    """A model would wait forever for a GPU that does not exist, or overflow one."""
    cases: list[tuple[str, str, str]] = [
        ("gpus: [1]}", "gpus: [2]}", "backends.comfy.gpus[0]: tower has no GPU '2'"),
        ("gpus: [1]}", "gpus: [1, 1]}", "backends.comfy.gpus[1]: '1' is named twice"),
        ("kind: demo, gpus: [1]}", "kind: demo}", "comfy.gpus: tower has several GPUs: name"),
        (
            "split: [1, 2]",
            "split: [1]",
            "backends.llama.split: must have a part for each GPU (2), not 1",
        ),
        ("gpus: [0]}", "gpus: [7]}", "models.own.gpus[0]: llama has no GPU '7'"),
        (
            "gpus: [0]}",
            "split: [1, 1, 1]}",
            "models.own.split: must have a part for each GPU (2), not 3",
        ),
        ("vram: 12GB", "vram: 12GB, gpus: [0]", "models.flux.gpus[0]: comfy has no GPU '0'"),
        ("margin: 0.5", "vram: 24GB", "`gpus`: set `vram` and `gpu` on each GPU"),
        ("gpu: 1, margin", "gpu: 0, margin", "gpus.1.gpu: is already the GPU of tower/0"),
        (
            "vram: 15GB",
            "vram: 24GB",
            (
                "models.qwen.vram: 24 GB, of which 16 GB are on tower/0, is more than its hosts can"
                " offer: at most 12 GB (50% of tower/0's 24 GB)"
            ),
        ),
    ]
    for old, new, told in cases:
        assert any(told in problem for problem in problems(changed(old, new))), problems(
            changed(old, new)
        )


def test_a_server_that_uses_one_gpu_is_told_if_it_is_given_two() -> None:
    """Half of each image model would be planned on a GPU that stays empty."""
    text = changed(
        "comfy: {kind: demo, gpus: [1]}",
        'comfy: {kind: comfyui, url: "http://127.0.0.1:8188", gpus: [0, 1]}',
    ).replace("  flux: {backends: [comfy], vram: 12GB}\n", "")
    (warning,) = parse(text, {}).warnings

    assert "hosts.tower.backends.comfy.gpus: one process uses one GPU" in warning


def test_gpus_of_a_host_with_one_are_told() -> None:
    """An operator would believe that a server uses only one GPU."""
    text = """\
        hosts: {home: {vram: 24GB, backends: {b: {kind: demo, gpus: [0]}}}}
        models: {m: {backends: [b], gpus: [0]}}
        chats: {web: {}}
    """
    found = problems(textwrap.dedent(text))

    assert any("backends.b.gpus: home lists no GPUs" in each for each in found)
    assert any("models.m.gpus: none of its servers is on a host with several" in e for e in found)


def test_a_host_needs_memory_of_some_kind() -> None:
    """A host without a budget would accept no model, and no one would know why."""
    text = "hosts: {home: {backends: {b: {kind: demo}}}}\nchats: {web: {}}\n"
    assert any("hosts.home.vram: is missing" in each for each in problems(text))
