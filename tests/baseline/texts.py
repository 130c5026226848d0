"""Texts that do not depend on the checkout's location, and their hashes."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = "cuh?|h|c|cpp|py|ipynb|so"
LONGEST = 40  # characters of a text that a record contains in full


def digest(value: Any) -> str:
    """Return 64 bits of the SHA-256 of a text, of bytes or of any JSON value."""
    if not isinstance(value, bytes | str):
        value = json.dumps(value, sort_keys=True)
    if isinstance(value, str):
        value = value.encode()
    return hashlib.sha256(value).hexdigest()[:16]


def short(value: Any) -> Any:
    """Return a field's value for a record: itself if it is short, else its hash."""
    if isinstance(value, dict | list):
        return digest(value) if len(json.dumps(value)) > LONGEST else value
    if isinstance(value, str) and len(value) > LONGEST:
        return digest(value)
    return value


def normalised(text: str) -> str:
    """Remove colours, addresses, and file names before line numbers from a text.

    Numbers that depend on chance are replaced: the place of an endless launch, and the
    blocks of a race.
    """
    text = re.sub(r"(?m)^weft: (?:building|waiting) .*\n", "", text)
    text = re.sub(r"(?s)(?<=ran for longer than ).*", _without_numbers, text)
    text = re.sub(r"(?<=: race: )block .* orders these two.*", _without_numbers, text)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(rf"(?:[\w.+-]*/)*[\w.+-]+\.(?:{_SOURCES}):(?=\d)", "FILE:", text)
    text = re.sub(rf"(?:[\w.+-]*/)+(?=[\w.+-]+\.(?:{_SOURCES})\b)", "", text)
    # Masks have 8 digits, so they remain.
    return re.sub(r"\b0x[0-9a-f]{9,}\b", "0x...", text)


def _without_numbers(match: re.Match[str]) -> str:
    return re.sub(r"\d+(\.\d+)?", "N", match[0])
