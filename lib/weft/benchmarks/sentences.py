"""Write the paragraphs about measurements in README.md and docs/results.md.

Each describe function returns Markdown; by default it reads notebooks/results/.
weft.benchmarks.readme inserts the paragraphs between their marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..base.paths import ROOT
from ..mnist.rungs import parse_twin
from ..timing.results import Row, read_json
from . import (
    Results,
    add_article,
    cut_release,
    fill_lines,
    join_words,
    launch,
    spell_count,
    write_accuracies,
    write_band,
    write_cores,
    write_days,
    write_digits,
    write_duration,
    write_machine,
    write_range,
    write_table,
    write_times,
    write_twins,
)
from .edit import WATCHED
from .race.command import list_twins
from .race.race import HOST_STEPS

RESULTS = ROOT / "notebooks" / "results"
BATCH = 64  # images per step in the milestones


# ---- selection of results --------------------------------------------------------


def load_newest(what: str, target: str) -> Results:
    """Return the newest committed results of `bench WHAT` for a processor or a GPU.

    Files with any GPU rows count as a GPU's. Raises ValueError if there are none.
    """
    files = [read_json(p) | {"stem": p.stem} for p in RESULTS.glob(f"{what}_*.json")]
    matching = [results for results in files if _target_of(results) == target]
    if not matching:
        raise ValueError(f"notebooks/results has no {what}_*.json for {target}")
    return max(matching, key=lambda results: results["machine"]["date"])


def _target_of(results: Results) -> str:
    on_gpu = any(r["target"] == "cuda" and r["device"] for r in results["rows"])
    return "cuda" if on_gpu else "cpu"


def fastest_row(rows: Iterable[Row], impl: str, **wanted: Any) -> Row:
    """Return the fastest row of `impl` among the rows with the wanted values."""
    candidates = (row for row in select(rows, impl=impl, **wanted) if row["us"])
    return min(candidates, key=lambda row: row["us"])


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows that have all wanted values."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


# ---- the race --------------------------------------------------------------------


def describe_opponent(results: Results | None = None) -> str:
    """Describe the GPU's contenders, and PyTorch's configuration."""
    results = results or load_newest("race", "cuda")
    races = [list_twins(rows) for rows in _group_races(results["rows"]).values()]
    kinds = list_twins(results["rows"])
    single = sum(all(k.graph <= 1 for k in race) for race in races)
    tuned = sum(any(k.autotune for k in race) for race in races)
    exceptions = ""
    if 0 < single < len(races):
        exceptions += f" In {single} of the {len(races)} races below, all of its "
        exceptions += "graphs contain one step."
    if 0 < tuned < len(races):
        exceptions += f" `max-autotune` takes part in {tuned} of them."
    return fill_lines(
        "These kernels train the network of the last lesson. PyTorch trains the same "
        "network beside them, in the same run and in the same precision. "
        f"{write_twins(kinds, HOST_STEPS['weft'])}{exceptions} Below, "
        f'"PyTorch" is the fastest of these {spell_count(len(kinds))} variants '
        f"({write_machine(results)}, {write_days(results['rows'])}):"
    )


def describe_race(results: Results | None = None) -> str:
    """Describe the race on a GPU: a table of steps, the milestones and host times."""
    rows = (results or load_newest("race", "cuda"))["rows"]
    parts = [_race_table(rows), _describe_epochs(rows), _describe_host(rows)]
    return "\n\n".join(parts)


def _group_races(rows: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    """Group the rows of each race of steps, by precision and batch."""
    races: dict[tuple[str, int], list[Row]] = {}
    for row in select(rows, measure="step"):
        races.setdefault((row["precision"], row["batch"]), []).append(row)
    return races


def _race_factor(rows: Sequence[Row]) -> float:
    """Return PyTorch's fastest time divided by ours."""
    return fastest_row(rows, "torch")["us"] / fastest_row(rows, "weft")["us"]


def _race_table(rows: Sequence[Row]) -> str:
    races = _group_races(rows)
    precisions = _list_precisions(rows)
    heads = [f"{kind}: ours | PyTorch | factor" for kind in precisions]
    lines = []
    for batch in sorted({batch for _, batch in races}):
        cells = [str(batch)]
        for race in (races[kind, batch] for kind in precisions):
            pair = (fastest_row(race, impl) for impl in ("weft", "torch"))
            cells += [write_duration(row["us"]) for row in pair]
            cells.append(f"{_race_factor(race):.2f}")
        lines.append(cells)
    columns = "r" * (1 + 3 * len(precisions))
    return write_table(["images a step", *heads], columns, lines)


def _describe_epochs(rows: Sequence[Row]) -> str:
    """Describe an epoch, the time to 99 % and each seed's accuracy, by precision."""
    kinds = _list_precisions(rows)

    def both(measure: str) -> tuple[list[Row], list[Row]]:
        candidates = select(rows, measure=measure)
        return tuple(
            [fastest_row(candidates, i, precision=k) for k in kinds]
            for i in ("weft", "torch")
        )

    ours, theirs = both("epoch")
    text = (
        f"An epoch at {BATCH} images a step, with its shuffle and its evaluation, "
        f"takes {write_times(ours)} in {join_words(kinds)}, and PyTorch's takes "
        f"{write_times(theirs)} (medians of {spell_count(ours[0]['samples'])}). "
    )
    for measure in ("target", "seeds"):
        ours, theirs = both(measure)
        epochs, seeds = ours[0]["epochs"], ours[0]["samples"]
        text += (
            f"{spell_count(epochs).capitalize()} epochs"
            f"{' with a one-cycle schedule' * ours[0]['one_cycle']} take "
            f"{write_times(ours)}, and PyTorch's take {write_times(theirs)}. Over "
            f"{spell_count(seeds)} seeds their mean accuracy is "
            f"{write_accuracies(ours)}, and PyTorch's is {write_accuracies(theirs)}. "
        )
    return fill_lines(text)


def _describe_host(rows: Sequence[Row]) -> str:
    """Describe the host's cost of queueing a step."""
    races = [race for (_, batch), race in _group_races(rows).items() if batch == BATCH]
    ours = [fastest_row(race, "weft")["host_us"] for race in races]
    peers = [row for race in races for row in select(race, impl="torch")]
    graphs: dict[int, list[float]] = {}
    for row in peers:
        graphs.setdefault(parse_twin(row["rung"]).graph, []).append(row["host_us"])
    costs = join_words(
        write_range(us) + f" in a graph of {steps}" * (len(graphs) > 2)
        for steps, us in graphs.items()
        if steps
    )
    eager = [row["host_us"] for row in select(peers, rung="eager")]
    return fill_lines(
        f"Queueing a step of {BATCH} images costs the host {write_range(ours)} when "
        f"{HOST_STEPS['weft']} steps are queued by one call. A captured step of "
        f"PyTorch costs it {costs}; an eager one costs {write_range(eager)}. The same "
        "seed always gives the same bits, since no sum uses atomics."
    )


SPEEDS = ("tflops", "sustained_tflops")  # the speeds in bursts and under a long load


def _compare_sustained(results: Results) -> dict[str, tuple[list[Row], list[Row]]]:
    """Return for each race our fastest row by each of SPEEDS, and the peer's row."""
    races: dict[str, tuple[list[Row], list[Row]]] = {}
    for race in dict.fromkeys(row["race"] for row in results["rows"]):
        rows = select(results["rows"], race=race)
        sides = (
            [r for r in rows if r["impl"] == "weft"],
            [r for r in rows if r["impl"] != "weft"],
        )
        ours, theirs = (
            [max(side, key=lambda row, key=key: row[key]) for key in SPEEDS]
            for side in sides
        )
        races[race] = ours, theirs
    return races


def summarize_sustained(results: Results | None = None) -> str:
    """Describe in a sentence the products' speeds in bursts and under a long load."""
    results = results or load_newest("sustained", "cuda")
    races = _compare_sustained(results)
    burst, load = (
        join_words(f"{ours[n][key]:.3g}" for ours, _ in races.values())
        for n, key in enumerate(SPEEDS)
    )
    row = results["rows"][0]
    return (
        f"The products ran in short bursts. On one {row['device']}, products of size "
        f"{row['m']} reach {burst} TFLOP/s in bursts ({join_words(races)}). Under a "
        f"load of {2 * row['sustained_s']:g} s without pauses, they reach {load}."
    )


def describe_sustained(results: Results | None = None) -> str:
    """Compare our products with cuBLAS in bursts and under a long load, in a table."""
    results = results or load_newest("sustained", "cuda")
    heads = ["precision", "ours: burst", "long load", "cuBLAS: burst", "long load"]
    heads += ["ratio: burst", "long load", "our clock under the load"]
    lines = []
    for race, sides in _compare_sustained(results).items():
        ours, theirs = ([r[key] for r, key in zip(side, SPEEDS)] for side in sides)
        clock = sides[0][1]["sustained_clock"]
        lines.append([
            *(race, *(f"{value:.3g}" for value in (*ours, *theirs))),
            *(f"{mine / other:.2f}" for mine, other in zip(ours, theirs)),
            f"{clock:.0f} MHz" if clock else "–",
        ])  # fmt: skip
    row = results["rows"][0]
    text = (
        f"m = k = n = {row['m']}, in TFLOP/s. A burst takes about 2 ms; on tensor "
        "cores, a pause follows it. For the long load, a kernel runs for "
        f"{row['sustained_s']:g} s without pauses, and its next {row['sustained_s']:g} "
        "s are timed. In each column, each side uses its fastest layout (in fp32 and "
        "bf16 only the usual one) and the faster one of cuBLAS and torch.mm. 3xtf32 is "
        f"compared with cuBLAS in fp32 ({write_machine(results)}, "
        f"{write_days(results['rows'])})."
    )
    return f"{write_table(heads, 'lrrrrrrr', lines)}\n\n{fill_lines(text)}"


def describe_cold_start(results: Results | None = None) -> str:
    """Describe the time from a process's start to the end of its first epoch."""
    results = results or load_newest("race", "cuda")
    rows = select(results["rows"], measure="cold", impl="weft")
    count = rows[0]["samples"]
    without = not any(row["imports_torch"] for row in rows)
    return fill_lines(
        f"From process start, the first epoch ends after {write_times(rows)} in "
        f"{join_words(row['precision'] for row in rows)} (medians of "
        f"{spell_count(count)}). The process {'imports no PyTorch, ' * without}finds "
        "its kernels compiled in the cache, and captures its graph."
    )


def describe_processor_race(results: Results | None = None) -> str:
    """Describe the race without a GPU: a step, an epoch and their picture."""
    results = results or load_newest("mnist", "cpu")
    rows, machine = results["rows"], results["machine"]
    ours, theirs = fastest_row(rows, "weft"), fastest_row(rows, "torch")
    timed = [row for row in rows if row["epoch_s"]]
    epochs = [
        min(select(timed, impl=impl), key=lambda row: row["epoch_s"])
        for impl in ("weft", "torch")
    ]
    peers = select(rows, impl="torch")
    variants = spell_count(len(peers))
    both = any("nobias" in row.get("rung", "") for row in peers)
    samples = spread = ""
    if "samples" in ours:
        samples = f" of {ours['samples']} samples of {ours['steps']} steps"
    if "epochs_s" in ours:
        count = spell_count(ours["epochs"])
        spread = f", and epochs as means with the fastest and slowest of {count}"
    text = fill_lines(
        "Without a GPU the network trains in plain C with its layers fused. On "
        f"{write_cores(machine)} a step of {ours['batch']} images takes "
        f"{write_band(ours)}. The fastest of PyTorch {cut_release(machine)}'s "
        f"{variants} variants (eager and compiled, both layouts"
        f"{', with and without biases before batch norm' * both}) takes "
        f"{write_band(theirs)}, {theirs['us'] / ours['us']:.1f} times as long. An "
        f"epoch takes {_epoch_band(epochs[0])}, and PyTorch's takes "
        f"{_epoch_band(epochs[1])}, "
        f"{epochs[1]['epoch_s'] / epochs[0]['epoch_s']:.1f} times as long. Steps are "
        f"given as medians with 20th to 80th percentiles{samples}, taken side by side"
        f"{spread} (fp32, {write_days(rows, machine)}). `make mnist` measures your "
        "machine."
    )
    stem = results.get("stem", "")
    if not (RESULTS / f"{stem}.svg").is_file():
        return text
    picture = f"![time per step, loss and accuracy on {write_cores(machine)}]"
    return f"{text}\n\n{picture}(../notebooks/results/{stem}.svg)"


def _epoch_band(row: Row) -> str:
    """Write a mean with its fastest and slowest epoch: 4.61 s (4.55 to 4.70)."""
    text = f"{write_digits(row['epoch_s'])} s"
    if epochs := row.get("epochs_s"):
        text += f" ({write_digits(min(epochs))} to {write_digits(max(epochs))})"
    return text


# ---- editing and launching -------------------------------------------------------


def describe_edits(
    processor: Results | None = None,
    gpu: Results | None = None,
    launches: Results | None = None,
) -> str:
    """Describe the time from a changed line to its result, and the cost of a launch."""
    processor = processor or load_newest("edit", "cpu")
    gpu = gpu or load_newest("edit", "cuda")
    host = f"{write_cores(processor['machine'])}, {processor['machine']['date']}"
    card = f"{gpu['machine']['device']}, {gpu['machine']['date']}"
    cpu = select(processor["rows"], target="cpu")
    cuda = select(gpu["rows"], target="cuda")
    contenders = [
        ("`%%cuda`, watched (g++)", host, fastest_row(cpu, "weft", rung=WATCHED)),
        ("`%%cuda --fast` (g++)", host, fastest_row(cpu, "weft", rung="load_cuda")),
        ("`%%cuda` (NVRTC)", card, fastest_row(cuda, "weft")),
        ("CuPy's RawKernel", card, fastest_row(cuda, "cupy")),
        ("nvcc alone, without a launch", card, fastest_row(cuda, "nvcc")),
        ("PyTorch's `load_inline`", card, fastest_row(cuda, "torch")),
    ]
    heads = "from a changed line to the end of its first launch", "on", "edits", "time"
    lines = []
    for name, machine, row in contenders:
        time = write_band(row) if row["edits"] > 1 else write_duration(row["us"])
        lines.append([name, machine, row["edits"], time])
    text = fill_lines(
        "Each time is the median of its edits in a live session, with the 20th to 80th "
        f"percentile. {_describe_launches(launches)} `python -m weft bench edit` and "
        "`bench launch` measure your machine."
    )
    return f"{write_table(heads, 'llrr', lines)}\n\n{text}"


def _describe_launches(launches: Results | None) -> str:
    launches = launches or load_newest("launch", "cuda")
    rows = select(launches["rows"], target="cuda")
    rows = [row for row in rows if row["rung"].startswith("burst ")]
    us = {row["impl"]: write_duration(row["us"], 2) for row in rows}
    count = {row["impl"]: spell_count(row["arguments"]) for row in rows}
    return (
        f"From Python, a launch of a kernel with {count['weft']} parameters costs the "
        f"host {us['weft']} on {add_article(launches['machine']['device'])}. The "
        f"driver's own call costs {us['driver']}, CuPy's RawKernel {us['cupy']}, "
        f"Numba {us['numba']}, and a PyTorch `add` with {count['torch']} parameters "
        f"{us['torch']} (medians of "
        f"bursts of {launch.BURST} launches, one run, "
        f"{write_days([], launches['machine'])})."
    )


# ---- tools on a processor --------------------------------------------------------


def describe_counters(results: Results | None = None) -> str:
    """Describe how our counts compare with Nsight Compute's."""
    results = results or load_newest("counters", "cuda")
    rows = [row for row in results["rows"] if row["agrees"] is not None]
    lanes = [row for row in rows if row["metric"].startswith("active threads")]
    counts = [row for row in rows if row not in lanes]
    equal = sum(row["difference"] == 0 for row in counts)
    different = [row for row in counts if row["difference"]]
    close = [row for row in lanes if row["verdict"].startswith(("same", "within"))]
    distances = [abs(row["difference"]) for row in lanes if row not in close]
    others = ""
    if distances:
        others = (
            f" In the other {spell_count(len(distances))} they differ by up to "
            f"{100 * max(distances):.0f} %: Nsight Compute weighs each instruction, "
            "and Weft weighs each straight-line piece of the source."
        )
    return fill_lines(
        f"Our counts agree with the GPU's: of {len(counts)} that Nsight Compute "
        f"measured in {len({row['rung'] for row in rows})} launches, {equal} are "
        f"exactly equal ({write_machine(results)}, "
        f"{write_days([], results['machine'])}). The launches are strided, gathered "
        "and misaligned copies, `float4`, transposes, reductions, tiled products, "
        f"branches and atomics. {_describe_reasons(different)} Active threads for each "
        f"instruction agree within 2 % in {len(close)} of {len(lanes)} launches."
        f"{others} `python -m weft bench counters` writes [the table](../notebooks/"
        f"results/{results.get('stem', 'counters')}.json), which lesson 07c shows."
    )


# The beginning of each verdict, and the phrase for it in README.
REASONS = {
    "the compiler merged": "because the compiler merged loads into wider ones",
    "one lane acts": "because a single lane acts for its warp",
    "within": "because the GPU takes scattered atomics in more turns",
}


def _describe_reasons(different: Sequence[Row]) -> str:
    """Describe why some counts differ, and the number of counts with each reason."""
    groups: dict[str, list[Row]] = {}
    for row in different:
        verdict = row["verdict"]
        phrases = (words for key, words in REASONS.items() if verdict.startswith(key))
        groups.setdefault(next(phrases, f"({verdict})"), []).append(row)
    text = ""
    for words, rows in groups.items():
        largest = max(abs(row["difference"]) for row in rows)
        share = f" ({100 * largest:.1f} % more sectors)" if largest < 0.02 else ""
        verb = "differ" if len(rows) > 1 else "differs"
        text += f" {spell_count(len(rows)).capitalize()} {verb} {words}{share}."
    return text.strip()


def describe_watching(results: Results | None = None) -> str:
    """Describe the cost of watching a launch."""
    results = results or load_newest("check", "cpu")
    rows = sorted(
        select(results["rows"], op="check", mode="check"), key=lambda row: row["cost"]
    )
    tiled = next(row for row in rows if row["rung"] == "matmul_tiled")
    return fill_lines(
        f"On {write_cores(results['machine'])} a watched launch takes "
        f"{rows[0]['cost']:.1f} (`{rows[0]['rung']}`) to {rows[-1]['cost']:.1f} times "
        f"(`{rows[-1]['rung']}`) as long as a plain one. A product with tiles "
        f"takes {tiled['cost']:.1f} times as long (fastest launch of each, "
        f"`python -m weft bench check`, {write_days([], results['machine'])})."
    )


def describe_simulator(results: Results | None = None) -> str:
    """Describe how the Python simulator compares with Numba's."""
    results = results or load_newest("sim", "cpu")
    rows = select(results["rows"], impl="weft", rung="matmul_tiled")
    off, on = (fastest_row(rows, "weft", checks=c)["vs_numba"] for c in ("off", "on"))
    machine = results["machine"] | {"cores": 1}
    return fill_lines(
        f"On {write_cores(machine)} a tiled matrix product runs {off:.0f} times as "
        f"fast as on Numba's own simulator, and {on:.0f} times as fast with all checks "
        f"(medians, `python -m weft bench sim`, {write_days([], machine)})."
    )


def _list_precisions(rows: Sequence[Row]) -> list[str]:
    return [*dict.fromkeys(kind for kind, _ in _group_races(rows))]


def describe_suite(results: Results | None = None) -> str:
    """Describe the last run of the quick tests on a GPU."""
    results = results or load_newest("suite", "cuda")
    (row,) = results["rows"]
    names = [name.partition("[")[0].rpartition("::")[2] for name in row["failed"]]
    failed = f", {len(names)} failed ({', '.join(names)})" if names else ""
    return fill_lines(
        f"The quick tests last ran on a GPU at commit {row['commit']} "
        f"({write_machine(results)}, {row['date']}): {row['passed']} passed{failed} "
        f"and {row['skipped']} were skipped, in {row['seconds']:.0f} s with "
        f"{row['workers']} processes on {results['machine']['cores']} cores."
    )
