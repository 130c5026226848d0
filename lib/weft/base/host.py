"""The machine that this process runs on: its processor and its CUDA driver."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def cpu_name() -> str:
    """The processor's own name, or the architecture where it has none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def count_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def driver_version() -> str:
    """The NVIDIA driver's version, or "none"."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, text=True, capture_output=True, timeout=20)
        return done.stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "none"
