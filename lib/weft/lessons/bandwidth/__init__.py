"""Functions of lessons 09a to 09d: rungs of bytes, counted and timed over their floor.

    rows = count_rungs("transpose", ["naive", "tiled"], 256)
    draw_ruler(rows)                                    a bar over the floor per rung
    mine = copy_rung("transpose", "padded", "mine.cu")  a copy for the reader to edit
    mine.check(); rows.append(mine.count(256))
    draw_ruler(time_ops(4096))                          the ops on this processor
    draw_sums(sums, exact, bounds)                      sums beside the exact one

own_rung   a reader's copy of a rung, in a library of its own
ruler      bytes and times over the floor, as rows and as bars; errors of sums
"""

from ...base.lazy import make_lazy

__all__ = make_lazy(
    __name__,
    {
        "own_rung": ("OwnRung", "copy_rung"),
        "ruler": (
            *("count_histograms", "count_rungs", "draw_ruler"),
            *("count_owners", "draw_sums", "list_gpu_rungs"),
            *("time_ops", "time_scans", "time_softmax"),
        ),
    },
)
