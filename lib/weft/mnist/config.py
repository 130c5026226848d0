"""What a run is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ArgumentError
from .rungs import FASTEST

LADDER = "ladder"  # every rung that runs on the device


@dataclass(frozen=True)
class Config:
    """What `python -m weft mnist` takes; the defaults are the lesson's."""

    # "naive", "numba,naive", "ladder"; None: the fastest in fp32
    rung: str | None = None
    device: str = "cpu"
    epochs: int = 3
    batch: int = 64
    lr: float = 0.1
    seed: int = 0
    threads: int = 0  # of the CPU, on both sides; 0: every core
    compare: bool = False
    twins: tuple[str, ...] | None = None  # to race, "eager nchw", ...; None: all
    iterations: int = 100  # steps timed per contender
    limit: int | None = None  # train on the first images only
    load: str | Path | None = None  # begin with these weights
    save: str | Path | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        least_of = {"epochs": 0, "batch": 1, "iterations": 1, "threads": 0, "seed": 0}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise ArgumentError(
                    f"{name}={getattr(self, name)}: want at least {least}"
                )
        if not 0 <= self.lr < float("inf"):
            raise ArgumentError(f"lr={self.lr}: want a number of at least 0")
        if len(set(self.rungs)) < len(self.rungs):
            raise ArgumentError(f"rung={self.rung}: one of them stands there twice")

    @property
    def rungs(self) -> list[str]:
        """The rungs to time and to train, by name."""
        return [name.strip() for name in (self.rung or FASTEST).split(",")]
