"""`weft bench streams` returns the output of lesson 06's program as rows."""

import pytest

from weft.benchmarks import streams
from weft.benchmarks.plot_bodies import load_elsewhere

PRINTED = "pinned    1 stream   2.000 ms, 4 streams   1.250 ms, wrong {}\n"


def test_rows_of_the_program_itself(target):
    rows = streams.rows(target, runs=2)
    names = [row["rung"] for row in rows]
    assert names == [
        f"{kind}, {count}"
        for kind in ("pageable", "pinned")
        for count in ("1 stream", "4 streams")
    ]
    assert all(row["us"] > 0 and row["op"] == "streams" for row in rows)
    assert ("do not represent" in streams.note(rows)) == (target == "cpu")


def test_printed_times_are_read_in_microseconds():
    want = {"pinned, 1 stream": 2000.0, "pinned, 4 streams": 1250.0}
    assert streams.read(PRINTED.format(0)) == want


@pytest.mark.parametrize(
    "printed, refusal",
    [
        (PRINTED.format(3), "3 elements are wrong, from pinned"),
        ("", "printed no times"),
    ],
)
def test_wrong_results_and_empty_output_are_refused(printed, refusal):
    with pytest.raises(RuntimeError, match=refusal):
        streams.read(printed)


def test_the_committed_rows_confirm_lesson_06():
    (results,) = load_elsewhere("streams")
    assert "H100" in results["machine"]["device"]
    rows = {row["rung"]: row for row in results["rows"]}
    us = {name: row["us"] for name, row in rows.items()}
    gain = us["pageable, 1 stream"] - us["pinned, 1 stream"]
    assert gain > 0.8 * (us["pageable, 1 stream"] - us["pinned, 4 streams"])
    one, four = rows["pinned, 1 stream"], rows["pinned, 4 streams"]
    assert four["us_high"] < one["us_low"]
    one, four = rows["pageable, 1 stream"], rows["pageable, 4 streams"]
    assert four["us_high"] > one["us_low"]  # the two bands overlap
