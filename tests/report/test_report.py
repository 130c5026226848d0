"""A report shows faults and costs, on a terminal, in a page, and as JSON."""

import json
import re
from types import SimpleNamespace

import pytest

from weft.base.errors import Mismatch
from weft.base.paths import SITE
from weft.base.style import FAULT, write_ink
from weft.report.costs import CostPlace, Counters, list_remarks
from weft.report.cures import KINDS
from weft.report.html import write_listing as html_listing
from weft.report.model import Finding, Listing, Report
from weft.report.places import write_index
from weft.report.text import write_listing, write_text

SOURCE = """\
def k(c, x):
    i = cuda.grid(1)
\ts[i] = x[8 * i]
    c[i] = s[i + 1] < 2
"""
FILE = "/tmp/ipykernel_12/345.py"


def place(kind, space, array, line, **counts):
    return CostPlace(
        kind=kind, space=space, array=array, file=FILE, line=line, size=4, **counts
    )


def report(*findings):
    counters = Counters(
        blocks=2,
        threads=128,
        warps=4,
        places=[
            place("step", "", "", 12, last=13, accesses=128, requests=4),
            place("read", "global", "x", 13, accesses=128, requests=4, sectors=128),
            place("write", "shared", "s", 13, accesses=128, requests=4, wavefronts=4),
            place("write", "global", "c", 14, accesses=64, requests=4, sectors=8),
        ],
    )
    sources = [Listing(FILE, 11, SOURCE)]
    return Report("k", (2, 1, 1), (64, 1, 1), list(findings), counters, sources=sources)


def race(**more):
    return Finding(
        "race",
        "thread 1 reads s[2] at line 14 while thread 2 writes it at line 13",
        **{
            **{"file": FILE, "line": 14, "column": 11, "other_line": 13},
            **{"thread": (1, 0, 0), "other": (2, 0, 0)},
            **more,
        },
    )


def test_all_well_is_one_line_and_what_hurts():
    assert report().ok
    assert write_text(report()).splitlines() == [
        "k[2, 64]; nothing wrong; reads per thread: x 1; writes per thread: s 1, c 0.5;"
        " sectors per request: x 32, c 2; no bank conflicts",
        "slow: line 13: reading x takes 32 sectors per request where 4 would do: the "
        "threads of a warp access distant addresses",
    ]


def test_a_finding_stands_at_its_source_line_with_a_caret():
    lines = write_text(report(race(count=62))).splitlines()
    assert lines[1].startswith("cell:14: race: thread 1 reads s[2]")
    assert lines[1].endswith("(62 times)")
    assert lines[2].strip() == "c[i] = s[i + 1] < 2"
    assert lines[2][lines[3].index("^") :].startswith("s[i + 1]")
    assert lines[4].strip() == "line 13: s[i] = x[8 * i]"
    assert "cuda.syncthreads()" in lines[5]


def test_a_caret_under_a_line_with_a_tab():
    lines = write_text(report(race(line=13, column=8, other_line=0))).splitlines()
    assert lines[3] == "    \t       ^"


def test_a_caret_counts_the_bytes_before_it():
    source = '    s["größe"] = x[i]'
    finding = race(file="k.py", line=1, column=len(source[:17].encode()), other_line=0)
    tabbed = Report("k", (1,), (1,), [finding], sources=[Listing("k.py", 1, source)])
    lines = write_text(tabbed).splitlines()
    assert lines[2][lines[3].index("^") :] == "x[i]"


def test_a_finding_without_a_line_is_told_all_the_same():
    assert "hang: it ran for 2 s" in write_text(
        report(Finding("hang", "it ran for 2 s"))
    )


def test_the_source_of_another_file_is_read_from_it(tmp_path):
    helper = tmp_path / "helper.py"
    helper.write_text("one\n  s[0] = 1\n")
    text = write_text(report(race(file=str(helper), line=2, column=2, other_line=0)))
    assert "helper.py:2: race" in text
    assert "  s[0] = 1" in text


def test_many_findings_are_not_all_shown():
    races = [race(line=n) for n in range(20)]
    assert "... and 12 more findings" in write_text(report(*races))
    assert "... and 12 more findings" in report(*races)._repr_html_()


def test_the_address_of_each_kind_follows_its_findings_in_a_terminal():
    races = [race(line=n) for n in range(20)]
    lines = write_text(report(*races, Finding("hang", "it ran"))).splitlines()
    after = lines.index("... and 13 more findings") + 1
    kinds = "race", "hang"
    address = f"explain: {SITE}/errors.html#error-"
    assert lines[after : after + 2] == [f"{address}{kind}" for kind in kinds]
    assert "explain" not in write_text(report())


def test_where_there_is_no_html_a_report_is_its_text():
    plain_report = report(race())
    assert repr(plain_report) == str(plain_report) == plain_report.text()


def test_verify_raises_with_the_findings():
    assert report().verify().ok
    with pytest.raises(Mismatch, match="while thread 2 writes it"):
        report(race()).verify()


def test_html_escapes_what_the_reader_wrote():
    page = report(race())._repr_html_()
    assert "s[i + 1] &lt; 2" in page
    assert "s[i + 1] < 2" not in page


def test_html_has_no_ground_and_no_ink_of_its_own():
    page = report(race())._repr_html_()
    assert "<style" not in page
    colours = set(re.findall(r"[;\"]color:([^;\"]+)", page))
    assert colours == {"inherit", FAULT, write_ink(FAULT)}
    assert not re.search(r"background:(?!none|rgba)", page)


def test_a_listing_shows_numbers_beside_the_lines_and_marks_the_hot_ones():
    rows = write_listing(SOURCE, 11, report().counters.lines).splitlines()
    heads = "reads writes sectors/req wavefronts/req lanes bytes"
    assert rows[0].split() == heads.split()
    assert rows[3].split()[-8:] == ["128", "128", "32", "!", "1", "32", "4", "096"]
    assert rows[1].strip() == "11  def k(c, x):"


def test_any_text_and_counters_can_be_listed():
    page = html_listing("a;\nb;\n", 13, report().counters.lines, "prog.cu", True)
    assert "<summary" in page
    assert "32 sectors per request where 4 would do" in page
    assert html_listing("a;\n", 1, {}, "prog.cu", True) == ""


def test_a_narrow_page_cuts_off_the_source_and_not_its_counters():
    page = html_listing("a;\nb;\n", 13, report().counters.lines, "prog.cu", True)
    row = page[page.rindex("<tr") :]
    cells = re.findall(r">([^<>]*)</td>", row)
    assert cells[-2:] == ["14", "b;"] and set("".join(cells[:-2])) & set("0123456789")


def test_conflicts_and_lanes_are_remarked():
    conflicts = place(
        "read", "shared", "s", 5, accesses=32, requests=1, wavefronts=32, conflicts=31
    )
    (remark,) = list_remarks(Counters(places=[conflicts]))
    assert "32 wavefronts per request where 1 would do" in remark


def test_remarks_on_several_files_name_them():
    spread = {"accesses": 32, "requests": 1, "sectors": 32}
    places = [place("read", "global", "a", 5, **spread) for _ in range(2)]
    places[0].file, places[1].file = "prog.cu", "tile.cuh"
    lines = list_remarks(Counters(places=places))
    assert [remark.partition(":")[0] for remark in lines] == [
        "prog.cu, line 5",
        "tile.cuh, line 5",
    ]


def test_atomics_on_one_address_are_remarked():
    counts = {"line": 5, "accesses": 32, "requests": 1}
    spread = place("atomic", "global", "y", sectors=32, **counts)
    clash = place("atomic", "shared", "s", wavefronts=32, conflicts=31, **counts)
    for cost, ratio in ((spread, "32 sectors per request where 4"), (clash, "where 1")):
        (remark,) = list_remarks(Counters(places=[cost]))
        assert "updating" in remark and ratio in remark
        assert "update one" in remark and "take turns" in remark


def test_json_has_what_the_command_line_promises():
    document = json.loads(json.dumps(report(race(block=(1, 0, 0))).json()))
    (finding,) = document["findings"]
    assert {"kind", "file", "line", "block", "thread", "text"} <= set(finding)
    assert finding["block"] == [1, 0, 0]
    (kernel,) = document["kernels"]
    assert (kernel["name"], kernel["launches"]) == ("k", 1)
    assert kernel["counters"]["load_sectors_per_request"] == {"x": 32.0}


@pytest.mark.parametrize(
    "index, shape, text",
    [
        ((4, 0, 0), (8, 1, 1), "4"),
        ((1, 2, 0), (4, 4, 1), "(1,2)"),
        ((0, 0, 3), (1, 1, 4), "(0,0,3)"),
        ((0, 0, 0), (1, 1, 1), "0"),
    ],
)
def test_threads_are_named_with_as_many_sides_as_their_block_has(index, shape, text):
    assert write_index(index, shape) == text


def test_every_kind_is_explained():
    assert {"bounds", "race", "conflict", "uninitialised", "barrier"} <= set(KINDS)
    assert all(KINDS.values())


def test_a_cell_shows_a_report_once(monkeypatch):
    import IPython
    from IPython.core.formatters import DisplayFormatter

    from weft.pykernel.sim import show

    shell = SimpleNamespace(execution_count=3, kernel=None)
    displays = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", displays.append)
    faulty = report(race())
    show(faulty)
    format_data = DisplayFormatter().format
    assert displays == [faulty] and format_data(faulty) == ({}, {})
    shell.execution_count = 4
    assert "text/html" in format_data(faulty)[0]
    assert "text/html" in format_data(report())[0]
