"""pytest with a plugin that writes every test's outcome: listener.py FILE WORDS...

A program of its own, so that the tests run in the environment that they always have.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


class Listener:
    """Lives in the main process, to which xdist's workers send their reports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take a phase of a test: the worst of three counts."""
        start = {"outcome": "passed", "slow": False, "seconds": 0.0}
        one = self.outcomes.setdefault(report.nodeid, start)
        one["slow"] |= "slow" in report.keywords
        one["seconds"] += report.duration
        if hasattr(report, "wasxfail"):
            one["outcome"] = "xfailed" if report.skipped else "xpassed"
        elif report.failed:
            one["outcome"] = "failed" if report.when == "call" else "error"
        elif report.skipped:
            one["outcome"] = "skipped"

    def pytest_sessionfinish(self) -> None:
        """Write what was heard, also if the run was stopped."""
        self.path.write_text(json.dumps(self.outcomes))


if __name__ == "__main__":
    del sys.path[0]
    sys.exit(pytest.main(sys.argv[2:], plugins=[Listener(Path(sys.argv[1]))]))
