"""The watch build's findings and counters refer to the reader's own lines."""

import json
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from weft.report import places, raw
from weft.report.text import colour_report

# ---- lines and columns ------------------------------------------------------------

LIBRARY = """\
template <class T> static inline T twice(const T *x, int i) {
    return 2 * x[i + 1];
}
void watch(const void *);
#define LOAD(p, i) ((p)[i])
extern "C" void entry(float *out, const float *a, int n) {
    for (int i = 0; i < n; i++) {
        out[i] = twice(a, i);
        out[i + 1] = LOAD(a, i);
    }
}
"""


@pytest.fixture(scope="module", params=["-gdwarf-4", "-gdwarf-5"])
def library(request, tmp_path_factory):
    """Build a library whose loads and stores call a hook; return the calls' offsets."""
    folder = tmp_path_factory.mktemp("symbols")
    source, path = folder / "k.cpp", folder / "k.so"
    source.write_text(LIBRARY)
    flags = ["-O1", "-g1", request.param, "-fsanitize=thread", "-fPIC", "-c"]
    subprocess.run(
        ["g++", *flags, str(source), "-o", str(folder / "k.o")], cwd=folder, check=True
    )
    link = ["g++", "-shared", "-nostdlib", str(folder / "k.o"), "-o", str(path)]
    subprocess.run(link, check=True)
    dump = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(path)],
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    matches = re.findall(r"^\s*([0-9a-f]+):\s+call.*<__tsan_(read|write)4", dump, re.M)
    return str(path), [(int(at, 16), kind) for at, kind in matches]


def test_an_offset_has_its_line_column_and_the_calls_it_was_inlined_through(library):
    path, calls = library
    frames = places.find_places(path, [at for at, _ in calls])
    accesses = {(kind, frames[at][0].line, frames[at][0].column) for at, kind in calls}
    assert ("write", 8, 16) in accesses  # at the = of out[i] = ...
    assert ("read", 2, 17) in accesses  # at the [ of x[i + 1]
    (inlined,) = [frames[at] for at, _ in calls if frames[at][0].line == 2]
    assert [frame.line for frame in inlined] == [2, 8]
    assert all(frame.file.endswith("k.cpp") for frame in inlined)


def test_every_line_is_addr2lines_own(library):
    path, calls = library
    rows = places.line_table(path)
    assert rows == sorted(rows, key=lambda row: row[0])
    for at, _ in calls:
        line = [row[1] for row in rows if row[0] <= at][-1]
        assert line == places.find_places(path, [at])[at][0].line


@pytest.mark.parametrize(
    "content", [b"", b"no library", b"\x7fELF\x02\x01" + 90 * b"a"]
)
def test_a_file_that_is_no_library_has_no_places(tmp_path, content):
    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert places.find_places(str(path), [16]) == {16: []}
    assert places.line_table(str(path)) == []


def test_a_thread_does_not_take_for_unknown_what_another_looks_up(monkeypatch):
    """Two simultaneous reports with the same place both show its line, never line 0."""
    begun, go_on = threading.Semaphore(0), threading.Event()
    frame = places.Frame("f", "k.cu", 7)

    def look_up(path, offsets, known):
        begun.release()
        assert go_on.wait(10)
        return {at: [frame] for at in offsets}

    monkeypatch.setattr(places, "_find_frames", look_up)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(places.find_places, "/nowhere/k.so", [16])
        assert begun.acquire(timeout=10)
        second = pool.submit(places.find_places, "/nowhere/k.so", [16])
        second.add_done_callback(lambda _: begun.release())
        # The other thread is looking up a place, or already has an answer.
        assert begun.acquire(timeout=10)
        go_on.set()
        assert first.result() == second.result() == {16: [frame]}


LINE = "    if (i < n) out[i] = a[i] + b[i] * s[ty][threadIdx.x];"


@pytest.mark.parametrize(
    "line, compiled, array, callee, begins",
    [
        (LINE, 28, "a", "", "a[i]"),
        (LINE, 35, "b", "", "b[i]"),
        (LINE, 23, "out", "", "out[i]"),
        # The compiled line contains simt::x(threadIdx) here.
        (LINE, LINE.index("threadIdx") + 19, "s", "", "s[ty]"),
        (LINE, 0, "b", "", "b[i]"),
        (LINE, 0, "", "", "if (i"),
        (LINE, 500, "", "", "if (i"),
        ("    *p = *q;", 8, "out", "", "*p"),
        ("    *p = *q;", 10, "", "", "*q"),
        ("    t->x[i].y = 3;", 15, "", "", "t->x"),
        ("    b[0] = __ldg(a + i);", 0, "a", "k", "a + i"),
        ("\tatomicAdd(&out[0], a[i]);", 0, "out", "atomicAdd", "atomicAdd"),
        ('    s["größe"] = 1; out[i] = 2;', 30, "", "", "out[i]"),
        # The array has an index's name. The report of a one-line kernel has no columns.
        ("__global__ void k(int *x) { x[threadIdx.x] = 1; }", 90, "x", "", "x[thre"),
    ],
)
def test_a_caret_stands_where_the_access_begins(line, compiled, array, callee, begins):
    at = places.find_column(line, compiled, array, callee)
    assert line.encode()[at:].decode().startswith(begins)


@pytest.mark.parametrize(
    "line, column, named",
    [
        ("local[i] = s[j];", 0, "local"),
        ("local[i] = s[j];", 11, "s"),
        ("s[at[i]] = 1;", 0, "s"),
        ("s[i][j] = 1;", 0, ""),
        ("*p = 1;", 0, ""),
        ("s[i", 0, ""),
    ],
)
def test_an_array_that_has_one_index_is_named(line, column, named):
    assert places.only_array(line, column) == named


# ---- from the text of the runtime to a report --------------------------------------


def as_text(path, findings=(), sites=(), steps=()):
    """Return the text of simt_check_report() for one kernel."""
    kernel = {
        **{"name": "entry", "launches": 2, "grid": [2, 1, 1], "block": [64, 1, 1]},
        **{"blocks": 4, "threads": 256, "warps": 8, "barriers": 0},
        **{"sites": list(sites), "steps": list(steps)},
    }
    report = {"modules": [path], "findings": list(findings), "kernels": [kernel]}
    return json.dumps(report)


def site(at, kind, array, **more):
    return {
        **{"site": [0, at], "kind": kind, "space": "global", "array": array, "size": 4},
        **{"accesses": 128, "requests": 4, "sectors": 128, "wavefronts": 0},
        **{"needed": 0, **more},
    }


def fault(at, **more):
    return {
        **{
            "kind": "bounds",
            "text": "thread 5 of block 1 reads a[9]: a has 9 elements",
        },
        **{"site": [0, at], "other_site": None, "file": "", "line": 0, "column": 0},
        **{"kernel": "entry", "block": [1, 0, 0], "thread": [5, 0, 0], "other": None},
        **{"array": "a", "index": 9, "count": 3, **more},
    }


@pytest.fixture
def readers(library):
    path, _ = library
    return raw.Files(str(path).rpartition("/")[0])


def test_findings_stand_at_the_innermost_line_of_the_readers_own(library, readers):
    path, calls = library
    at = next(at for at, _ in calls if places.find_places(path, [at])[at][0].line == 2)
    report = raw.program_report(as_text(path, [fault(at)]), readers, "k.cpp")
    (finding,) = report.findings
    assert (finding.file, finding.line, finding.index) == ("k.cpp", 2, (9,))
    assert finding.cure == "guard the access: if (i < n)"
    text = report.text()
    assert "k.cpp:2: bounds: thread 5 of block 1 reads a[9]" in text
    assert text.splitlines()[3].index("^") - 4 == 15  # the caret is below x[i + 1]


def test_places_that_the_compiler_made_several_of_are_one(library, readers):
    path, calls = library
    at = next(at for at, kind in calls if kind == "write")
    text = as_text(
        path,
        [fault(at), fault(at)],
        [site(at, "write", "out"), site(at, "write", "out")],
    )
    report = raw.program_report(text, readers, "k.cpp")
    assert [finding.count for finding in report.findings] == [6]
    (kernel,) = report.kernels
    assert kernel.counters.sectors == {"out": 256}
    assert kernel.counters.store_sectors_per_request == {"out": 32.0}
    (place,) = kernel.counters.places
    assert (place.line, place.accesses) == (8, 256)


def test_a_race_of_a_place_with_itself_is_cured_by_an_atomic(library, readers):
    path, calls = library
    at = next(at for at, kind in calls if kind == "write")
    race = fault(at, kind="race", other_site=[0, at], other=[6, 0, 0])
    (finding,) = raw.program_report(as_text(path, [race]), readers, "k.cpp").findings
    assert "atomicAdd" in finding.cure and "cuda." not in finding.cure


def test_shared_memorys_turns_beyond_those_needed_are_conflicts(library, readers):
    path, calls = library
    slow = site(calls[0][0], "read", "s", space="shared", wavefronts=128, needed=4)
    report = raw.program_report(as_text(path, [], [slow]), readers, "k.cpp")
    assert report.kernels[0].counters.bank_conflicts == {"s": 124}
    assert "32 wavefronts per request where 1 would do" in report.text()


def test_a_program_without_findings_has_a_line_a_kernel_and_the_hot_lines(
    library, readers
):
    path, calls = library
    at = next(at for at, kind in calls if kind == "write")
    step = {"site": [0, at], "threads": 64, "executions": 8}
    report = raw.program_report(
        as_text(path, [], [site(at, "write", "out")], [step]), readers, "k.cpp"
    )
    rows = report.text().splitlines()
    assert rows[0] == "k.cpp: nothing wrong"
    assert rows[1].startswith("entry[2, 64] x2; writes per thread: out 0.5")
    assert "slow: line 8: writing out takes 32 sectors per request" in rows[2]
    listed = "\n".join(rows[3:])
    assert "32 !" in listed and "out[i] = twice(a, i);" in listed
    assert "template" not in listed  # line 1 is not near a hot line
    assert "8 !" in listed  # the lanes of a hot line
    report.listing = "all"
    assert "template" in report.text()
    report.listing = "none"
    assert len(report.text().splitlines()) == 3


def test_json_is_what_the_command_promises(library, readers):
    path, calls = library
    text = as_text(path, [fault(calls[0][0])], [site(calls[0][0], "read", "a")])
    document = json.loads(json.dumps(raw.program_report(text, readers, "k").json()))
    (finding,) = document["findings"]
    assert {"kind", "file", "line", "block", "thread", "text"} <= set(finding)
    assert (finding["kind"], finding["block"], finding["thread"]) == (
        "bounds",
        [1, 0, 0],
        [5, 0, 0],
    )
    (kernel,) = document["kernels"]
    assert (kernel["name"], kernel["launches"]) == ("entry", 2)
    assert kernel["counters"]["bytes"] == {"a": 4096}


def test_what_is_in_no_source_of_the_readers_is_told_without_a_line(library, readers):
    path, _ = library
    text = as_text(path, [fault(1), fault(1, site=None, text="another")])
    findings = raw.program_report(text, readers, "k.cpp").findings
    assert [finding.line for finding in findings] == [0, 0]


def test_a_page_has_the_listing_with_warm_cells(library, readers):
    path, calls = library
    at = calls[0][0]
    report = raw.program_report(
        as_text(path, [fault(at)], [site(at, "read", "a")]), readers, "k.cpp"
    )
    page = report._repr_html_()
    assert "rgba(" in page and "line by line: k.cpp" in page
    assert "x[i" in page or "twice" in page


def test_a_terminals_colours_are_on_kinds_carets_and_hot_numbers(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "k.cu:3: race: thread 1\n    a[i] = 1\n      ^\nslow: line 3\n 3  x   32 !"
    assert re.sub(r"\x1b\[[\d;]*m", "", colour_report(text)) == text
    assert colour_report(text).count("\x1b[1;31m") == 2
    assert colour_report(text).count("\x1b[33m") == 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert colour_report(text) == text
