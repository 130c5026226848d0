"""What was seen of a launch: faults, and what each line of the source cost.

One form for the Python simulator and for the watch build of CUDA C. Counters have the
definitions of Nsight Compute (ncu), whose names stand beside each.

    model        a report, its findings and its sources
    cures        the kinds of findings, and what usually cures each
    places       lines, indices, and the column where an access begins
    counters     what a launch cost, by place in the source, by line and by array
    turns        loops, and in which turn of one the accesses of a race were
    text, html   a report for a terminal, and for a page
    program      the report of a whole program, which launches several kernels
    shown        a report below the cell, or on stderr
    raw          the watch build's JSON, as reports on the reader's lines
    symbols      from an offset in a library to a line of the source
    cells        the sources of a notebook's cells and their headers
"""

from .counters import Counters, Line, Place, Sums
from .model import Finding, Listing, Report

__all__ = ["Counters", "Finding", "Line", "Listing", "Place", "Report", "Sums"]
