"""The demo has a model of every kind, and each fits on its GPUs."""

from bot.cli.demo import demo
from bot.cli.demo.options import DemoOptions
from queueing.core.requests import Capability


def test_a_newcomer_sees_every_kind_without_a_server() -> None:
    """A command would answer that no model can do it, in the very demo that shows it."""
    catalog = demo.demo_config(DemoOptions()).catalog()
    for capability in Capability:
        assert catalog.able(capability), capability


def test_each_model_fits_on_one_of_its_gpus() -> None:
    """A job would wait forever."""
    catalog = demo.demo_config(DemoOptions()).catalog()
    for spec in catalog.models.values():
        rooms = [catalog.hosts[catalog.host_of[name]].usable_mb for name in spec.backends]
        assert max(rooms) >= (spec.vram_mb or 0), spec.name
