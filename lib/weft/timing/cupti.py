"""TODO: what is in here."""

from __future__ import annotations

import os
from typing import Any


def start_profile(on_gpu: bool) -> Any:
    from torch.profiler import ProfilerActivity, profile

    # Else its C++ writes a line to stderr whenever it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    kinds = [ProfilerActivity.CPU]
    if on_gpu:
        kinds.append(ProfilerActivity.CUDA)
    return profile(activities=kinds)


def is_named_range(event: Any) -> bool:
    """Whether an event on the device is a named range, which kernels lie in."""
    if getattr(event, "is_user_annotation", False):
        return True
    return event.name.startswith(("ProfilerStep", "aten::", "Optimizer."))
