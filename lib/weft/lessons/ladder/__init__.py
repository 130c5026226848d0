"""Functions that the lessons on the matmul ladder share (notebooks 08a, 08b, 08c).

    show_diff("03_tiled", "04_registers_1d")       the changes of a rung, in color
    draw_tiles("05_registers_2d")                  its tiles, in three panels
    one_rung("tiled").inspect(64, 64, 64)          its memory accesses, by line
    copy_rung("tiled", "mine.cu")                  a copy for the reader to edit
    mine = one_rung("mine.cu")
    mine.check(); rows = mine.race(1024)           check it, and race it against cuBLAS
    results = Results(rows)                        rows measured here, or committed ones
    results.tflops("tiled"); results.ladder(["naive", "tiled"])

code            rung files, their differences, and drawings of tiles and their order
one_rung        builds, checks and races one rung in a separate library, or variants
                with more or less work per thread
results         speeds, a part of the ladder, use of cycles, and waits for registers
"""

from ...base.lazy import make_lazy

__all__ = make_lazy(
    __name__,
    {
        "code": (
            *("draw_tiles", "order_drawn", "print_common_lines", "rung_path"),
            *("show_diff", "stages_drawn", "tile_order"),
        ),
        "one_rung": (
            *("OneRung", "WORKS", "copy_rung", "one_rung", "race_works", "vary_work"),
        ),
        "results": (
            *("Results", "draw_busy_shares", "hot_loop", "print_cycles", "print_loop"),
            *("print_losses", "register_waits", "time_on_processor"),
        ),
    },
)
