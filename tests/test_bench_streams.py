"""`weft bench streams`: what lesson 06's program prints becomes rows."""

import pytest

from weft.bench import streams

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
    assert ("no signal" in streams.note(rows)) == (target == "cpu")


def test_what_was_printed_is_read_in_microseconds():
    want = {"pinned, 1 stream": 2000.0, "pinned, 4 streams": 1250.0}
    assert streams.read(PRINTED.format(0)) == want


@pytest.mark.parametrize(
    "printed, refusal",
    [
        (PRINTED.format(3), "3 elements are wrong, from pinned"),
        ("", "printed no times"),
    ],
)
def test_wrong_results_and_silence_are_refused(printed, refusal):
    with pytest.raises(RuntimeError, match=refusal):
        streams.read(printed)
