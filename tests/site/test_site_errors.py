"""The page of errors: every kind has an entry, and its example produces it."""

import dataclasses
import re

import pytest
from pages import errors
from parts import examples, refusals
from parts.findings import FINDINGS

import weft
from weft.base.errors import explain
from weft.base.paths import ROOT, SITE
from weft.report.cures import KINDS
from weft.report.html import link_entry
from weft.report.model import Finding, Report

ENTRIES = [
    *(dataclasses.replace(entry, finding=True) for entry in FINDINGS),
    *refusals.all_entries(),
    *refusals.ON_A_GPU,
]
BY_ANCHOR = {entry.anchor: entry for entry in ENTRIES}
EXAMPLES = [entry for entry in ENTRIES if entry.cell or entry.code or entry.program]
QUICK = {"bounds", "race", "exception", "mismatch", "argument-type", "compile"}


def test_each_kind_of_finding_has_an_entry():
    assert {entry.anchor for entry in FINDINGS} == KINDS.keys()
    assert all(entry.title == KINDS[entry.anchor] for entry in FINDINGS)


def list_public_errors():
    """Return the names of all errors but KernelError, which is only the base class."""
    values = {name: getattr(weft, name) for name in weft.__all__}
    classes = {name: one for name, one in values.items() if isinstance(one, type)}
    return {n for n, one in classes.items() if issubclass(one, BaseException)} - {
        "KernelError"
    }


def test_each_public_error_has_an_entry():
    public = list_public_errors()
    explained = {entry.error for entry in ENTRIES} | {"DeviceLost", "OutOfMemory"}
    assert public <= explained


def test_each_error_leads_to_an_entry_or_a_section():
    places = BY_ANCHOR.keys() | {anchor for anchor, _ in refusals.SECTIONS.values()}
    for name in list_public_errors():
        assert getattr(weft, name).entry in places, name


def test_an_error_in_a_notebook_ends_with_its_address():
    assert explain(weft.ArgumentError("n=0")) == [
        f"explain: {SITE}/errors.html#error-refused"
    ]
    fault = weft.KernelFault("k: thread 0 writes x[4]")
    assert explain(fault)
    fault.report = Report("k", (1,), (1,))  # a report has its own links
    assert not explain(fault)
    assert not explain(ValueError("n=0"))


def test_anchors_are_unique_and_fit_for_an_address():
    assert len(BY_ANCHOR) == len(ENTRIES)
    assert all(re.fullmatch(r"[a-z-]+", anchor) for anchor in BY_ANCHOR)


def test_each_entry_has_a_cause_and_a_cure():
    for entry in ENTRIES:
        assert entry.cause.endswith((".", ")")) and entry.cure.endswith(".")


def test_a_report_links_to_its_entry():
    finding = Finding("race", "thread 1 reads s[2] while thread 2 writes it")
    page = Report("k", (1,), (1,), [finding])._repr_html_()
    assert link_entry("race") in page
    assert f'href="{SITE}/errors.html#error-race"' in link_entry("race")


def test_the_sites_address_belongs_to_the_repository():
    text = (ROOT / "CITATION.cff").read_text()
    owner, name = re.search(r"github\.com/([\w-]+)/([\w-]+)", text).groups()
    assert f"https://{owner}.github.io/{name}" == SITE


def test_an_entry_that_does_not_fit_its_example_stops_the_build():
    wrong = dataclasses.replace(BY_ANCHOR["bounds"], anchor="race")
    with pytest.raises(examples.UnexpectedOutcome, match="bounds"):
        examples.run(wrong)


def test_an_entry_shows_cause_example_report_and_cure():
    text = errors.write_entry(BY_ANCHOR["bounds"])
    head, cause, cell, launch, report, cure = text.split("\n\n", 5)
    assert head.startswith("(error-bounds)=\n### ")
    assert "last block" in cause and "scale(" in cell and "scale[4, 32]" in launch
    assert "x[100]" in text and "weft-report" in text
    assert report and "**Cure.**" in cure
    assert "explain</a>" not in text  # the link would lead to the page itself


@pytest.mark.parametrize("anchor", sorted(QUICK))
def test_an_example_produces_what_its_entry_explains(anchor):
    examples.run(BY_ANCHOR[anchor])


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [e for e in EXAMPLES if e.anchor not in QUICK], ids=lambda e: e.anchor
)
def test_every_example_produces_what_its_entry_explains(entry):
    outcome = examples.run(entry)
    assert outcome.report or outcome.printed or outcome.error
