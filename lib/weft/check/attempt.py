"""One run of one case of a check, and what came out of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base.errors import Mismatch
from .problem import Trial


@dataclass
class Attempt:
    """One run of one case. got: the outputs; wrong: the one that was compared last."""

    trial: Trial
    order: str
    got: dict[str, np.ndarray] = field(default_factory=dict)
    worst: float = 0.0
    error: Mismatch | None = None
    wrong: str = ""

    @property
    def by_value(self) -> bool:
        """Whether it ran to its end and gave wrong numbers."""
        return (
            bool(self.wrong) and self.error is not None and self.error.want is not None
        )

    def __str__(self) -> str:
        sizes = " ".join(f"{n}={v}" for n, v in self.trial.sizes.items())
        parts = [sizes] if sizes else []
        if self.trial.shape is not None:
            parts.append(str(self.trial.shape))
        if self.order not in ("", "forward"):
            how = {"reverse": "in reverse"}.get(self.order, self.order)
            parts.append(f"threads {how}")
        return ", ".join(parts) or "its inputs"
