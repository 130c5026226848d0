"""What was seen of a launch: faults, and what each line of the source cost.

One form for the Python simulator and for the watch build of CUDA C. Counters have the
definitions of Nsight Compute (ncu), whose names stand beside each.

    model        a report, its findings and its sources
    kinds        the kinds of findings; places: lines and indices, as they are written
    counters     what a launch cost, by place in the source, by line and by array
    lines        a source with what each of its lines cost
    turns        in which turn of a loop the accesses of a race were
    cures        what usually cures a finding, in Python's words and in CUDA C's
    text, html   a report for a terminal, and for a page
    program      the report of a whole program, which launches several kernels
    shown        a report below the cell, or on stderr
    highlight    a program's text as HTML, in colour
    raw          the watch build's JSON, as reports on the reader's lines
    symbols      from an offset in a library to a line of the source
    carets, cells, loops  where on a line an access is; cells' names; loops
"""

from .counters import Counters, Line, Place, Sums
from .model import Finding, Listing, Report

__all__ = ["Counters", "Finding", "Line", "Listing", "Place", "Report", "Sums"]
