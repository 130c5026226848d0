"""What the lessons on the matmul ladder share (notebooks 08a, 08b, 08c).

    show_diff("03_tiled", "04_registers_1d")       what a rung changes, in colour
    one_rung("tiled").inspect(64, 64, 64)          what it asks of memory, by line
    copy_rung("tiled", "mine.cu")                  a file of one's own, to be changed
    mine = one_rung("mine.cu")
    mine.check(); rows = mine.race(1024)           right? and beside cuBLAS
    results = Results(rows)                        measured here, else what came along
    results.tflops("tiled"); results.ladder(["naive", "tiled"])

code            rung files and their differences; drawings of the orders of tiles
one_rung        a rung in a library of its own
results         speeds, the ladder so far, where cycles go, and waits for registers
per_thread      08a: one rung with more threads that do less, or fewer that do more
"""

from .code import rung_path, show_diff
from .one_rung import OneRung, copy_rung, one_rung
from .results import Results, hot_loop, print_loop, time_on_processor

__all__ = [
    "OneRung",
    "Results",
    "copy_rung",
    "hot_loop",
    "one_rung",
    "print_loop",
    "rung_path",
    "show_diff",
    "time_on_processor",
]
