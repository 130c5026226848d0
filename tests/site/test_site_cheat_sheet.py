"""The cheat sheet fits on one sheet, its calls exist, and its limits are the lab's."""

import re

import pytest
from browser import open_page
from pages import cheat_sheet

import utils
import weft
from weft.see.machine_code.residency import LIMITS


def test_every_call_exists():
    names = {
        re.match(r"\w+", call)[0] for call in cheat_sheet.list_code() if call[0] != "%"
    }
    assert names <= {*utils.__all__, *weft.__all__}


def test_the_limits_are_those_of_occupancy():
    rows = cheat_sheet.list_limits()
    at = cheat_sheet.CAPABILITIES.index("8.9")
    ada = {title: cells[at] for title, cells in rows.items()}
    assert ada["threads of a multiprocessor"] == str(LIMITS["8.9"].threads)
    assert ada["shared memory of a block, KB"] == str(
        LIMITS["8.9"].shared_block // 1024
    )


def test_the_limits_name_their_sources():
    text = cheat_sheet.write_limits()
    assert cheat_sheet.GUIDE in text and cheat_sheet.TRAITS in text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_prints_on_one_sheet(scheme):
    style = (cheat_sheet.THEME / "cheat_sheet.css").read_text()
    content = f"<style>{style}</style><h1>Cheat sheet</h1>{cheat_sheet.write_sheet()}"
    with open_page(content, color_scheme=scheme) as page:
        printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
