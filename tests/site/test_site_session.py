"""While the site is built, a lesson's clock is replayed, and its files are noted."""

import time
from types import SimpleNamespace

import lessons
import nbformat
import pytest
import session

CELL = SimpleNamespace(raw_cell="bench(f)")


def read_twice(recorded):
    clock = session.Clock(recorded)
    clock.begin_cell(CELL)
    return clock, [clock.read(), clock.read()]


def test_a_replayed_cell_reads_the_recorded_times():
    recorder, times = read_twice(None)
    replayer, again = read_twice(recorder.taken)
    assert again == times and replayer.taken == recorder.taken
    assert not replayer.unknown


def test_an_unknown_cell_reads_the_real_clock_and_is_reported():
    clock, times = read_twice({})
    assert times[1] >= times[0] >= 0 and len(clock.unknown) == 1


def test_the_same_cell_run_twice_has_two_records():
    clock, _ = read_twice(None)
    clock.begin_cell(CELL)
    clock.read()
    assert sorted(len(taken) for taken in clock.taken.values()) == [1, 2]


def test_only_the_lab_and_the_cells_read_the_replayed_clock(monkeypatch):
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "time_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))
    clock, _ = read_twice({})
    session.replace_clock(clock)
    scope = {"time": time, "__name__": "weft.timing.clocks"}
    assert eval("time.perf_counter_ns()", scope) == clock.now
    before = clock.now
    time.perf_counter_ns()  # this call is from the test's own module
    assert clock.now == before


@pytest.mark.parametrize("number", [0, 7, 12345678, 10**12 + 1])
def test_a_reading_keeps_four_digits(number):
    assert abs(session.round_digits(number) - number) <= number / 2000


def test_a_change_of_code_makes_the_outputs_stale_and_a_change_of_text_does_not():
    new = nbformat.v4
    cells = [new.new_markdown_cell("Text."), new.new_code_cell("x = 1")]
    notebook = new.new_notebook(cells=cells)
    before = lessons.hash_code(notebook)
    cells[0].source = "Other text."
    assert lessons.hash_code(notebook) == before
    cells[1].source = "x = 2"
    assert lessons.hash_code(notebook) != before


def test_outputs_do_not_name_this_machine_or_this_run():
    cell = nbformat.v4.new_code_cell("f()")
    mark = "0123456789ab"
    html = f'<div data-weft="{mark}"></div><script>"{mark}"</script>'
    cell.outputs = [
        nbformat.v4.new_output("stream", text=f"{lessons.ROOT}/lib /tmp/tmpab12cd34"),
        nbformat.v4.new_output("display_data", data={"text/html": html}),
    ]
    lessons.make_reproducible(nbformat.v4.new_notebook(cells=[cell]))
    assert cell.outputs[0].text == "~/weft/lib /tmp/lesson"
    assert mark not in cell.outputs[1].data["text/html"]


def test_stderr_and_widgets_are_dropped_and_printed_pieces_joined():
    new = nbformat.v4.new_output
    pieces = [new("stream", text="(unsi"), new("stream", text="gned)")]
    assert [one.text for one in lessons.join_streams(pieces)] == ["(unsigned)"]
    assert not lessons.is_shown(new("stream", name="stderr", text="warning"))
    shown = lessons.clean_output(
        new("display_data", data={lessons.WIDGET: {}, "text/html": "x"})
    )
    assert list(shown.data) == ["text/html"]
