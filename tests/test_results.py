"""What lies in notebooks/results."""

import json

import pytest

from weft.bench.sentences import RESULTS

FILES = sorted(RESULTS.glob("*.json"))


def test_there_are_results():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_committed_rows_were_measured_at_a_commit(path):
    """bench.commit() ends in "+" where the files differed from it."""
    found = json.loads(path.read_text())
    commits = {part.get("commit") for part in (found["machine"], *found["rows"])}
    assert not [name for name in commits if name and name.endswith("+")]
