"""Run pytest with a plugin that writes every test's outcome: listener.py FILE WORDS...

It is a separate program, so that the tests run in their usual environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


class Listener:
    """The outcomes in the main process, to which xdist's workers send reports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record a phase of a test; the worst of the three phases counts."""
        start = {"outcome": "passed", "slow": False, "seconds": 0.0}
        test = self.outcomes.setdefault(report.nodeid, start)
        test["slow"] |= "slow" in report.keywords
        test["seconds"] += report.duration
        if hasattr(report, "wasxfail"):
            test["outcome"] = "xfailed" if report.skipped else "xpassed"
        elif report.failed:
            test["outcome"] = "failed" if report.when == "call" else "error"
        elif report.skipped:
            test["outcome"] = "skipped"

    def pytest_sessionfinish(self) -> None:
        """Write the outcomes, even if the run was stopped."""
        self.path.write_text(json.dumps(self.outcomes))


if __name__ == "__main__":
    del sys.path[0]
    sys.exit(pytest.main(sys.argv[2:], plugins=[Listener(Path(sys.argv[1]))]))
