"""What was seen of a launch: faults, and what each line of the source cost.

One form for the Python simulator and for the watch build of CUDA C. Counters have the
definitions of Nsight Compute (ncu), whose names stand beside each.

    model        a report, its findings and sources; the report of a whole program
    cures        the kinds of findings, and what usually cures each
    places       lines, indices, and the column where an access begins
    counters     what a launch cost, by place in the source, by line and by array
    turns        loops, and in which turn of one the accesses of a race were
    text, html   a report for a terminal, for a page, and below a cell
    raw          the watch build's JSON, as reports on the reader's lines
    symbols      from an offset in a library to a line of the source
"""

from .counters import CostPlace, Counters, Line, Sums
from .model import Finding, Listing, Report

__all__ = ["CostPlace", "Counters", "Finding", "Line", "Listing", "Report", "Sums"]
