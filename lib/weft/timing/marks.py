"""When the sections of a step end: by events on a GPU, by the clock elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


class Marks:
    """Notes when sections end, by events on a GPU and by the clock elsewhere."""

    def __init__(self, device: torch.device):
        self.device, self.names = device, []
        self.now: Callable[[], Any] = _read_clock
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            # Backward runs in a thread of its own, whose current stream may differ.
            self.stream = torch.cuda.current_stream(device)
            self.now = self._event
        self.times = [self.now()]

    def note(self, name: str) -> None:
        self.names.append(name)
        self.times.append(self.now())

    def read(self) -> dict[str, float]:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            spans = [
                a.elapsed_time(b) * 1e3 for a, b in zip(self.times, self.times[1:])
            ]
        else:
            spans = [b - a for a, b in zip(self.times, self.times[1:])]
        return dict(zip(self.names, spans))

    def _event(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        return event


def _read_clock() -> float:
    return time.perf_counter_ns() / 1e3
