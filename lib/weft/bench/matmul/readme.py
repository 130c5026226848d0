"""The part of README.md that is made from results: the table of the matmul ladder.

`python -m weft.bench.matmul.readme` writes it between its two marks, and draws the two
pictures that stand beside the results in notebooks/results/; a test holds README.md to
these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...build import ROOT
from ...figures.style import save
from .goals import CUBLAS, best, goals
from .plot import (
    OURSELVES,
    PRECISIONS,
    RESULTS,
    at,
    committed_results,
    ladder_plot,
    timed,
)
from .roofline import roofline

README = ROOT / "README.md"
BEGIN = "<!-- matmul: made by python -m weft.bench.matmul.readme -->"
END = "<!-- /matmul -->"
SIZE = (4096, 4096, 4096)
RUN = "`python -m weft bench matmul --device cuda --set all --numba --rounds 10`"

Row = dict[str, Any]
# What stands behind a name where a and b are not stored as (m,k) and (k,n).
LYING = {"nt": ", b stored (n,k)", "tn": ", a stored (k,m)"}


def matmul_table(committed: list[dict[str, Any]] | None = None) -> str:
    """Every rung at m = k = n = 4096 in Markdown, with the card and the date.

    committed: as bench.read_json() has them; None: what came with the lab. Of several
    the first. Where there is nothing it says how to measure.
    """
    found = committed_results() if committed is None else committed
    rows = at(timed(found[0]["rows"]), SIZE) if found else []
    if not rows:
        return f"The ladder has not been measured yet: {RUN}."
    lines = ["| rung | idea | precision | TFLOP/s | of cuBLAS | error |"]
    lines += ["|---|---|---|---:|---:|---:|"]
    for kind in PRECISIONS:
        ours = [r for r in rows if r["precision"] == kind and r["impl"] in OURSELVES]
        names = dict.fromkeys((row["rung"], row["layout"]) for row in ours)
        for name in names:
            same = (r for r in ours if (r["rung"], r["layout"]) == name)
            lines.append(_line(name[0], best(same, OURSELVES)))
        peers = [row for row in rows if row["precision"] == kind]
        if (peer := best(peers, CUBLAS)) and names:
            lines.append(_line("*cuBLAS*", peer))
    machine, dates = found[0]["machine"], sorted({row["date"] for row in rows})
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    said = (
        f"m = k = n = 4096, {machine['device']}, driver {machine['driver']}, CUDA "
        f"{machine['toolkit']}, PyTorch {machine['torch']}, {when}. Medians, all in "
        f"turn in one run of {RUN}; 3xtf32 beside cuBLAS in fp32. Error: root mean "
        "square, relative, against float64."
    )
    return "\n".join([*lines, "", said, *_goals(found[0]["rows"])])


def _goals(rows: list[Row]) -> list[str]:
    """What the ladder was to reach, and what it did: a table, or nothing."""
    asked = [line for line in goals(rows) if line["must"]]
    if not asked:
        return []
    lines = ["", "| precision | m x k x n | times cuBLAS | asked | hoped for |"]
    lines += ["|---|---|---:|---:|---:|"]
    for line in asked:
        named = [line["precision"], line["size"], f"{line['vs cuBLAS']:.3g}"]
        lines.append(f"| {' | '.join(named)} | {line['must']} | {line['goal']} |")
    return lines


def written(text: str, table: str) -> str:
    """README's text with the table between its marks; ValueError without them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} ... {END} in the text")
    return f"{before}{begin}\n{table}\n{end}{after}"


def write(path: Path = README) -> None:
    """Bring the file and the ladder's two pictures up to date."""
    path.write_text(written(path.read_text(), matmul_table()))
    side = str(SIZE[0])
    save(ladder_plot([], size=side), RESULTS / "matmul_ladder_nvidia_h200.svg")
    save(roofline([], size=side), RESULTS / "matmul_roofline_nvidia_h200.svg")


def _line(name: str, row: Row) -> str:
    speed = f"{row['tflops']:#.3g}".rstrip(".")
    ratio = row.get("vs_cublas")
    share = f"{100 * ratio:.3g} %" if ratio else "–"
    error = f"{row['error_rms']:.1e}" if row.get("error_rms") else "–"
    idea = row.get("idea") or ""
    name += " (Numba)" if row["impl"] == "numba" else ""
    name += LYING.get(row["layout"], "")
    return f"| {name} | {idea} | {row['precision']} | {speed} | {share} | {error} |"


if __name__ == "__main__":
    write()
