"""The table of flavours of picture servers. A new flavour is a file and a line here."""

from collections.abc import Mapping

from backends.images.flavour import PictureFlavour
from backends.images.localai import LocalAi
from backends.images.sdcpp import StableDiffusionCpp
from backends.images.swarmui import SwarmUi
from backends.images.vllm_omni import VllmOmni

PICTURE_FLAVOURS: Mapping[str, type[PictureFlavour]] = {
    flavour.name: flavour
    for flavour in (StableDiffusionCpp, LocalAi, SwarmUi, VllmOmni, PictureFlavour)
}
"""By the name of the option `flavour`, in the order they are tried: each is detected by a call that
the ones before it lack; `PictureFlavour` comes last.
"""
