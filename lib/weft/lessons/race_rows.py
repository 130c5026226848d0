"""The measured rows of training steps that lesson 15b reads, prints and draws.

race = RaceRows("cuda", batches=(64, 1024))     on a GPU this takes a minute or two
race.us_of("naive"), race.fastest_torch("graph")["us"]
race.print_limits("naive")
race.show_ladder()

race_models() trains given models of PyTorch, and times their steps, for lesson 13a:

rows = race_models({"mine": model, "eager": torch_model})
show_figure(plot_run(rows))
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from ..base.device import count_threads
from ..base.errors import ArgumentError
from ..benchmarks.plot_bodies import load_elsewhere
from ..benchmarks.plot_graphs import find_value
from ..benchmarks.race import plot_batches, plot_ladder
from ..benchmarks.race.command import compare_best
from ..benchmarks.race.inside import conv2_back, draw_conv2_back
from ..benchmarks.race.race import run_heat, rungs_of
from ..benchmarks.race.work import StepPart, find_limits, find_roof, floor_us, sum_parts
from ..mnist import Cnn, load_tensors, trainer
from ..mnist.data import Split, epoch_order
from ..mnist.rungs import parse_twin
from ..ops import nn
from ..see.view import show_figure
from ..timing.race import Contender, race
from ..timing.results import Row, add_torch_ratios
from ..toolchain import native

PRECISIONS = ("fp32", "tf32", "bf16")


class RaceRows:
    """Rows of `weft bench mnist`, measured on this GPU, or committed results.

    here: rows measured now. elsewhere: the committed results. every: the rows in use.
    """

    def __init__(self, device: str, batches: Sequence[int], full: bool = False):
        """Race on `device` if it is a GPU. full: whether compiled PyTorch races."""
        self.here = _race(batches, full) if device == "cuda" else []
        self.elsewhere = load_elsewhere("race")
        committed = (row for result in self.elsewhere for row in result["rows"])
        self.every = self.here or list(committed)
        graphs = load_elsewhere("graphs")
        self._launch_device = graphs[0]["machine"]["device"] if graphs else ""
        self._launch_us = find_value("chain", "a graph", [], graphs, count=100)
        if not self.every:
            print("nothing measured yet: python -m weft bench mnist --device cuda")

    def row_of(
        self, rung: str, batch: int = 64, impl: str = "weft", measure: str = "step"
    ) -> Row:
        """Return the row of a rung, measured here or elsewhere; {} if there is none."""
        required = {"measure": measure, "impl": impl, "rung": rung, "batch": batch}
        rows = (row for row in self.every if required.items() <= row.items())
        return next(rows, {})

    def us_of(self, rung: str, batch: int = 64, impl: str = "weft") -> float:
        """Return the microseconds of a rung's step; NaN if it was not measured."""
        return self.row_of(rung, batch, impl).get("us", math.nan)

    def fastest(self, precision: str, batch: int = 64) -> Row | None:
        """Return our fastest row whose sections were timed."""
        return plot_batches.fastest_of(self.every, precision, batch)

    def fastest_torch(
        self, kind: str | None = None, precision: str = "fp32", batch: int = 64
    ) -> Row:
        """Return PyTorch's fastest row, of one kind or of any; {} if there is none.

        kind: "eager", "compile", "graph" or "compile+graph", with any options.
        """
        required = {"measure": "step", "impl": "torch"}
        required |= {"precision": precision, "batch": batch}
        rows = [row for row in self.every if required.items() <= row.items()]
        if kind is not None:
            rows = [row for row in rows if parse_twin(row["rung"]).family == kind]
        return min(rows, key=lambda row: row["us"], default={})

    def roof_of(self, precision: str) -> Row | None:
        """Return the row with the machine's peak tflops and gbs, or None."""
        required = {"measure": "roof", "precision": precision}.items()
        return next((row for row in self.every if required <= row.items()), None)

    def parts_of(self, row: Row) -> list[StepPart]:
        """Return the sections of a step's row, with the limit of each."""
        return find_limits(row, self.roof_of(row["precision"]), self._launch_us)

    def step_of(self, row: Row) -> StepPart:
        """Return the sum of a step's sections, with its limit."""
        return sum_parts(self.parts_of(row))

    def conv2_back_of(self, rung: str, batch: int = 64) -> StepPart | None:
        """Return conv2's backward pass in a rung's step, per 64 images, or None."""
        row = self.row_of(rung, batch)
        roof = row and self.roof_of(row["precision"])
        return conv2_back(row, roof, self._launch_us) if row and roof else None

    # ---- text --------------------------------------------------------------------

    def print_limits(self, rung: str, batch: int = 64) -> None:
        """Print a breakdown of a step's time, and the step's limit."""
        row = self.row_of(rung, batch)
        roof = row and self.roof_of(row["precision"])
        if not roof:
            return print(f"{rung}, batch {batch}: {self._explain_missing(rung)}")
        step = self.step_of(row)
        print(
            f"{rung}, batch {batch}: {step.us:.1f} µs. At the roof, its products take "
            f"{step.products:.1f}, its bytes {step.bytes:.1f}, "
            f"its launches {step.launch:.1f} (on {self._launch_device});"
        )
        factor = step.us / floor_us(batch, roof["tflops"], rung)
        print(f"    {factor:.1f} times the products' floor; limited by {step.binds}")

    def _explain_missing(self, rung: str) -> str:
        """Return why there is no row of a rung."""
        sm = next((one.sm for one in native.rungs("mnist") if one.name == rung), 0)
        if self.here and sm > native.LEAST_SM:
            return f"not measured here; it needs compute capability {sm / 10}"
        return "not measured yet"

    def print_torch(self) -> None:
        """Print the step and host times of PyTorch for 64 images in fp32, by kind."""
        for kind in ("eager", "compile", "graph", "compile+graph"):
            if row := self.fastest_torch(kind):
                print(f"{kind:<14}{row['us']:7.0f} µs; host {row['host_us']:7.0f} µs")

    def print_floors(self) -> None:
        """Print the least possible time of a step's products, in each precision."""
        for precision in PRECISIONS:
            # This row contains the peak rate of multiply-adds.
            if roof := self.roof_of(precision):
                tflops = roof["tflops"]
                floors = " and".join(f"{floor_us(n, tflops):6.1f}" for n in (64, 1024))
                print(
                    f"{precision}: {tflops:4.0f} TFLOP/s, so at least {floors} µs "
                    "for 64 and 1024 images"
                )

    def print_errors(self) -> None:
        """Print the errors of each step of 64 images against float64."""
        for row in self.every:
            is_step = (row["measure"], row["batch"]) == ("step", 64)
            if is_step and row["gradient_error"]:
                print(
                    f"{row['precision']} {row['impl']:<6}{row['rung']:<14} "
                    f"loss off by {row['loss_error']:.0e}, "
                    f"gradients by at most {row['gradient_error']:.0e}"
                )

    def print_factors(self) -> None:
        """Print our fastest steps' speedups over PyTorch, with a breakdown of each."""
        for line in compare_best([r for r in self.every if r["measure"] == "step"]):
            print(
                f"{line['precision']} {line['batch']:>6}: "
                f"{line['ratio']:4.1f} times PyTorch's fastest"
            )
            row = self.row_of(line["ours"], line["batch"])
            if row.get("layers_us") and self.roof_of(row["precision"]):
                step = self.step_of(row)
                print(
                    f"{'':13}of {step.us:.1f} µs, products take {step.products:.1f}, "
                    f"launches {step.launch:.1f}, waiting {step.waiting:.1f}; "
                    f"limited by {step.binds}"
                )

    def print_choice(self, batch: int, rung: str | None) -> None:
        """Print a rung's time at a batch size, relative to the fastest rungs."""
        if not (row := self.row_of(rung, batch) if rung else {}):
            problem = "not measured" if rung else "choose a rung"
            return print(f"batch {batch}: {problem}")
        rows = [self.fastest(precision, batch) for precision in PRECISIONS]
        strict = rows[0]["us"]
        fastest = min(row["us"] for row in rows if row)
        print(
            f"batch {batch}, {rung}: {row['us']:.1f} µs per step, "
            f"{row['us'] / strict:.2f} times the fastest fp32 rung's and "
            f"{row['us'] / fastest:.2f} times the fastest rung's; "
            f"gradients off by {row['gradient_error']:.0e}"
        )

    def print_milestones(self) -> None:
        """Print our times and PyTorch's for an epoch, to 99 %, and for five seeds."""
        for row in self.every:
            if row["measure"] not in ("epoch", "target", "seeds"):
                continue
            name, share = row["rung"], row.get("test_accuracy")
            if row["impl"] != "weft":
                name = f"PyTorch {name} {row['layout']}"
            ratio = row.get("vs_torch_best")
            print(
                f"{row['measure']:<7}{row['precision']}  {name:<36}"
                f"{row['us'] / 1e6:6.3f} s  {f'{100 * share:.2f} %' if share else '-'} "
                f"of the test digits{f', {ratio:.1f} times PyTorch' if ratio else ''}"
            )

    # ---- pictures ----------------------------------------------------------------

    def show_ladder(self) -> None:
        """Show the time of every rung's step."""
        show_figure(plot_ladder.plot_ladder(self.here, self.elsewhere))

    def show_batches(self) -> None:
        """Show the time per image for each batch size."""
        show_figure(plot_batches.plot_batches(self.here, self.elsewhere))

    def show_sections(self, *rungs: str) -> None:
        """Show the times of the sections of some rungs."""
        show_figure(plot_ladder.plot_sections(self.here, self.elsewhere, rungs))

    def show_roofline(self, *batches: int) -> None:
        """Show the sections of our fastest steps on the roofline."""
        show_figure(plot_ladder.plot_roofline(self.here, self.elsewhere, batches))

    def show_limits(self, row: Row) -> None:
        """Show each section's share of a step's time, and the section's limit."""
        title = f"{row['rung']}, batch {row['batch']}, {row['device']}"
        show_figure(plot_ladder.plot_limits(self.parts_of(row), title, bool(self.here)))

    def show_conv2_back(self, parts: Mapping[str, StepPart]) -> None:
        """Show conv2's backward pass, with a bar for each of its times."""
        card = self.every[0]["device"] if self.every else ""
        show_figure(draw_conv2_back(parts, card, here=bool(self.here)))


def _race(batches: Sequence[int], full: bool) -> list[Row]:
    """Return rows of `weft bench mnist`, measured on this GPU."""
    rows: list[Row] = []
    device = torch.device("cuda")
    twins = None if full else ("graph nchw", "graph channels_last")
    for precision in PRECISIONS:
        if rungs_of(precision, device):  # not empty if the GPU supports this precision
            rows += find_roof(precision, device)
            for batch in batches:
                rows += run_heat(precision, batch, device=device, twins=twins, rounds=5)
    return rows


def start_model(
    rung: str,
    devices: Sequence[str],
    data: Split,
    weights: Mapping[str, np.ndarray],
    max_batch: int,
) -> Cnn | None:
    """Return a model on the first device that supports the rung; None if none does.

    Prints the error of each device that does not support it.
    """
    for device in dict.fromkeys(devices):
        try:
            cnn = trainer(rung, device, max_batch=max_batch)
        except ArgumentError as error:
            print(error)
            continue
        cnn.data(data)
        cnn.set_weights(weights)
        return cnn
    return None


# ---- models of PyTorch ---------------------------------------------------------------


def race_models(
    models: Mapping[str, torch.nn.Module],
    device: str = "cpu",
    images: int = 2048,
    batch: int = 64,
    lr: float = 0.1,
    epochs: int = 1,
    tests: int = 1000,
    rounds: int = 7,
) -> list[Row]:
    """Time a training step of each model in turn, then train each on MNIST.

    models: by name, from images (n,1,28,28) to logits (n,10). All start from the first
    one's weights, and see the same images in the same order. images, tests: the numbers
    of training and test images. batch, lr: images and learning rate of a step. rounds:
    the number of timed steps. load_state_dict() raises RuntimeError for a model that
    cannot have the first one's weights.

    Returns a row for each model, which plot_run() and plot_steps() draw: "us" per step,
    "losses", and "test_accuracies" after each epoch. A model with a layer of weft.nn
    counts as ours, any other as PyTorch's. An activation alone does not count.
    """
    first = next(iter(models.values()))
    start = copy.deepcopy(first.state_dict())
    splits = *load_tensors("train", images), *load_tensors("test", tests)
    x, labels, test_x, test_labels = (array.to(device) for array in splits)
    orders = [epoch_order(0, epoch, images, batch) for epoch in range(epochs)]
    batches = [torch.from_numpy(o.astype(np.int64)).to(device) for o in orders]

    def step(model: torch.nn.Module, chosen: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(model(x[chosen]), labels[chosen])
        gradients = torch.autograd.grad(loss, [*model.parameters()])
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter.sub_(gradient, alpha=lr)
        return loss.detach()

    for model in models.values():
        model.to(device)
    contenders = {
        name: Contender(
            call=functools.partial(step, model, batches[0][:batch]), calls=1
        )
        for name, model in models.items()
    }
    timed = race(contenders, device, rounds=rounds, discard=1)
    rows = []
    for name, model in models.items():
        model.load_state_dict(start)
        losses, accuracies = [], []
        for chosen in batches:
            losses += [step(model, part) for part in chosen.split(batch)]
            with torch.no_grad():
                right = model(test_x).argmax(1) == test_labels
            accuracies.append(right.double().mean().item())
        kinds = {type(module) for module in model.modules()} - {nn.Activation}
        is_ours = any(kind.__module__ == nn.__name__ for kind in kinds)
        rows.append(
            {
                **{"impl": "weft" if is_ours else "torch", "rung": name},
                **{"precision": "fp32", "layout": "nchw", "batch": batch},
                **{"target": torch.device(device).type, "device": timed[name].device},
                **{"threads": count_threads(), "epochs": epochs, "images": images},
                **timed[name].row(),
                **{"losses": [loss.item() for loss in losses]},
                **{"test_accuracies": accuracies, "test_accuracy": accuracies[-1]},
            }
        )
    add_torch_ratios(rows)
    return rows
