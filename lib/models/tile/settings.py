"""The settings of the network for tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lib.files.errors import UserError
from lib.models.common.settings import SageSettings, TileCollection
from lib.settings.base import ByData, setting
from lib.settings.search import among


@dataclass(frozen=True)
class TileSettings(TileCollection, SageSettings):
    """A network of its own for tiles: late fusion."""

    input: ClassVar[str] = "lib.models.tile.inputs:INPUT"
    fold: ClassVar[str] = "lib.models.tile.training:KernelsFold"
    network: ClassVar[str] = "lib.models.tile.network:TileNetwork"
    scatter: ClassVar[str] = "gpu"
    # One kernel a step: so, 17.5 passes over them are the published 100,000 steps.
    fits: ClassVar[ByData] = {"official": {"kernels": 1}}

    model: str = setting("tile", "network: `tile`, late fusion (2.2.5)")
    # stage 2
    kernels: int = setting(8, "kernels a step", search=among(1, 2, 4, 8, 16))

    def check(self) -> None:
        super().check()
        if self.channels % self.squeeze:
            raise UserError(
                f"--channels {self.channels}: must be a multiple of {self.squeeze}, the squeeze"
            )
