"""Reports of launches: faults, and the cost of each source line.

The Python simulator and the watch build of CUDA C fill the same report. Counters follow
the definitions of Nsight Compute (ncu). Each counter's documentation gives ncu's name.

    model        defines reports of launches and of whole programs, and findings
    cures        defines the kinds of findings, and the usual cure for each
    places       finds lines, indices, the column where an access begins, and the
                 line of an offset in a library
    costs        sums the cost of a launch by place in the source, line and array
    turns        finds loops, and the loop turns in which a race's accesses happened
    text, html   write a report for a terminal, for a page, and below a cell
    raw          converts the watch build's JSON to reports on the reader's lines
"""

from .costs import CostPlace, Counters, Line, Sums
from .model import Finding, Listing, Report

__all__ = ["CostPlace", "Counters", "Finding", "Line", "Listing", "Report", "Sums"]
