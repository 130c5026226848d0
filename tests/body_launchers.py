"""The ops' launchers as the cases of weft.ops.cases call them, with bodies as kernels.

    case.launch(Launchers(run), 0, tensors, None)

calls run(body, threads, *args) for each launch that kernels/<op>.cu would make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from weft.ops.bindings import WORDS
from weft.pykernel import bandwidth, bodies, orders
from weft.pykernel.bodies import THREADS
from weft.toolchain.native import NULL

UINT, FLOAT = WORDS.index(torch.uint32), WORDS.index(torch.float32)

# These bodies add up numbers in blocks of THREADS threads. All others accept any block
# size.
TREES = (
    *(bodies.batchnorm2d_stats, bodies.batchnorm2d_sums),
    bodies.cross_entropy_loss,
    *(bandwidth.add_tree, bandwidth.count_shared),
    *(orders.sort_tiles, orders.merge_tiles),
    *(orders.count_nibbles, orders.scan_counts, orders.scatter_nibbles),
    *(bandwidth.add_tiles, bandwidth.scan_tiles, bandwidth.scan_tiles_brent_kung),
)


class Launchers:
    """A stand-in for native.Library; tensors replace pointers, and NULL means none."""

    def __init__(
        self,
        run: Callable[..., None],
        product: Callable[..., None] = bodies.matmul,
        transposed: Callable[..., None] = bandwidth.transpose,
        scanned: Callable[..., None] = bandwidth.scan_tiles,
        counted: Callable[..., None] = bandwidth.count_global,
        added: Callable[..., None] = bandwidth.add_each,
        radix: bool = False,
        network: bool = False,
    ) -> None:
        self.run, self.product, self.transposed = run, product, transposed
        self.scanned, self.counted, self.added = scanned, counted, added
        self._sort = self._sort_digits if radix else self._sort_pairs
        self.network = network

    def call(self, function: str, rung: int, *args: Any) -> None:
        """Replace native.Library.call(); the last argument is the stream."""
        getattr(self, function.removeprefix("weft_"))(*args[:-1])

    def matmul(self, c, a, b, m, n, k, options) -> None:
        assert options == NULL  # bodies support neither transposes nor alpha and beta
        self.run(self.product, (m, n), c, a, b, m, n, k)

    def matmul_workspace(self, bytes_, *sizes) -> None:
        bytes_[0] = 0

    def copy(self, y, x, count) -> None:
        self.run(bandwidth.copy_words, count, y, x, count)

    def copy_backward(self, dx, dy, count) -> None:
        self.copy(dx, dy, count)

    def transpose(self, y, x, rows, cols) -> None:
        self.run(self.transposed, (rows, cols), y, x, rows, cols)

    def transpose_backward(self, dx, dy, rows, cols) -> None:
        self.transpose(dx, dy, cols, rows)

    def reduce(self, sum, x, count, options) -> None:
        sum.zero_()
        self.run(self.added, count, sum, x, count)

    def reduce_backward(self, dx, dsum, count) -> None:
        self.run(bandwidth.copy_to_each, count, dx, dsum, count)

    def softmax(self, y, x, rows, cols) -> None:
        self.run(bandwidth.softmax, rows, y, x, rows, cols)

    def softmax_backward(self, dx, dy, y, rows, cols) -> None:
        self.run(bandwidth.softmax_dx, rows, dx, dy, y, rows, cols)

    def layernorm(
        self, y, total, mean, rstd, x, residual, weight, bias, rows, cols, eps
    ) -> None:
        self._normalize(
            *(y, total, mean, rstd, x, residual, weight, bias, rows, cols, eps, 1)
        )

    def rmsnorm(self, y, total, rstd, x, residual, weight, rows, cols, eps) -> None:
        mean = torch.empty(rows)
        self._normalize(
            *(y, total, mean, rstd, x, residual, weight, NULL, rows, cols, eps, 0)
        )

    def _normalize(
        self, y, total, mean, rstd, x, residual, weight, bias, rows, cols, eps, centred
    ) -> None:
        total = torch.empty(rows * cols) if total is NULL else total
        residual = torch.zeros(rows * cols) if residual is NULL else residual
        weight = torch.ones(cols) if weight is NULL else weight
        bias = torch.zeros(cols) if bias is NULL else bias
        arrays = y, total, mean, rstd, x, residual, weight, bias
        sizes = rows, cols, np.float32(eps), centred
        self.run(bandwidth.normalize_by_thread, rows, *arrays, *sizes)

    def layernorm_backward(
        self, dx, dresidual, dweight, dbias, dy, x, total, weight, mean, rstd, *sizes
    ) -> None:
        gradients = dx, dresidual, dweight, dbias
        inputs = dy, x if total is NULL else total, weight, mean, rstd
        self._differentiate(*gradients, *inputs, *sizes, 1)

    def rmsnorm_backward(
        self, dx, dresidual, dweight, dy, x, total, weight, rstd, rows, cols
    ) -> None:
        gradients = dx, dresidual, dweight, NULL
        row = x if total is NULL else total
        inputs = dy, row, weight, torch.zeros(rows), rstd
        self._differentiate(*gradients, *inputs, rows, cols, 0)

    def _differentiate(
        self, dx, dresidual, dweight, dbias, dy, x, weight, mean, rstd, *sizes
    ) -> None:
        rows, cols, _ = sizes
        scale = torch.ones(cols) if weight is NULL else weight
        inputs = dy, x, scale, mean, rstd
        self.run(bandwidth.differentiate_by_thread, rows, dx, *inputs, *sizes)
        if dresidual is not NULL:
            dresidual.copy_(dx)
        dweight = torch.empty(cols) if dweight is NULL else dweight
        dbias = torch.empty(cols) if dbias is NULL else dbias
        inputs = dy, x, mean, rstd, rows, cols
        self.run(bandwidth.add_rows, cols, dweight, dbias, *inputs)

    def compact(self, y, kept, x, count, threshold) -> None:
        kept.zero_()
        threshold = np.float32(threshold)
        self.run(bandwidth.keep_each, count, y, kept, x, count, threshold)

    def histogram(self, counts, x, count) -> None:
        counts.zero_()
        self.run(self.counted, count, counts, x, count)

    def bincount(self, counts, x, count, bins) -> None:
        counts.zero_()
        self.run(bandwidth.count_keys, count, counts, x, count, bins)

    def sort(self, y, sorted_values, x, values, count, options) -> None:
        flags = (0, 0) if options == NULL else (options.kind, options.descending)
        indices = torch.arange(count, dtype=torch.int32)
        values = indices if values is NULL else values
        sorted_values = indices.clone() if sorted_values is NULL else sorted_values
        self._sort(y, sorted_values, x, values, count, *flags)

    def _sort_pairs(self, y, sorted_values, x, values, count, kind, descending) -> None:
        flips = orders.find_flips(kind == UINT, descending)
        words = torch.zeros(count, dtype=torch.int64)
        tile = orders.PAIR_TILE
        tiles = -(-count // tile)
        arguments = words, x, count, int(kind == FLOAT), flips
        self.run(orders.sort_tiles, tiles * THREADS, *arguments)
        length = 2 * tile
        while length // 2 < count:
            pairs = -(-count // length) * length // 2
            self.run(orders.merge_mirrored, pairs, words, length, count)
            distance = length // 4
            while distance >= tile:
                self.run(orders.merge_apart, pairs, words, distance, count)
                distance //= 2
            self.run(orders.merge_tiles, tiles * THREADS, words, count)
            length *= 2
        arrays = y, sorted_values, x, values, words
        self.run(orders.gather_keys, count, *arrays, count)

    def _sort_digits(
        self, y, sorted_values, x, values, count, kind, descending
    ) -> None:
        flips = orders.find_flips(kind != UINT, descending)
        size = orders.DIGITS * bodies.blocks_for(count)
        counts = torch.zeros(size, dtype=torch.int32)
        spare = torch.zeros(2, count, dtype=torch.int32)
        to, back = (spare[0], spare[1]), (y, sorted_values)
        for shift in range(0, 32, 4):
            digit = count, shift, int(kind == FLOAT), flips
            self.run(orders.count_nibbles, count, counts, x, *digit)
            self.run(orders.scan_counts, THREADS, counts, size)
            arrays = *to, counts, x, values
            self.run(orders.scatter_nibbles, count, *arrays, *digit)
            (x, values), to, back = to, back, to

    def topk(self, values, indices, x, rows, cols, k) -> None:
        if self.network:
            self._sort_rows(values, indices, x, rows, cols, k)
            return
        self.run(orders.keep_largest, rows, values, indices, x, rows, cols, k)

    def _sort_rows(self, values, indices, x, rows, cols, k) -> None:
        padded = 2
        while padded < cols:
            padded *= 2
        places = torch.zeros(rows * padded, dtype=torch.int32)
        self.run(orders.number_places, len(places), places, rows, cols, padded)
        size = 2
        while size <= padded:
            stride = size // 2
            while stride > 0:
                arguments = places, x, rows, cols, padded, size, stride
                self.run(orders.exchange_pairs, len(places) // 2, *arguments)
                stride //= 2
            size *= 2
        arrays = values, indices, x, places
        self.run(orders.write_first, rows * k, *arrays, rows, cols, padded, k)

    def topk_backward(self, dx, dvalues, indices, rows, cols, k) -> None:
        dx.zero_()
        arrays = dx, dvalues, indices
        self.run(orders.scatter_values, rows * k, *arrays, rows, cols, k)

    def scan(self, y, x, count, options) -> None:
        flags = (0, 0) if options == NULL else (options.exclusive, options.reverse)
        self._scan(y, x, count, *flags)

    def scan_backward(self, dx, dy, count, options) -> None:
        flags = (0, 0) if options == NULL else (options.exclusive, options.reverse)
        self._scan(dx, dy, count, flags[0], 1 - flags[1])

    def _scan(self, y, x, count, exclusive, reverse) -> None:
        tiles = bodies.blocks_for(count)
        sums, earlier = torch.zeros(tiles), torch.zeros(tiles)
        self.run(bandwidth.add_tiles, count, sums, x, count, reverse)
        if tiles > 1:
            self._scan(earlier, sums, tiles, 1, 0)
        args = earlier, count, exclusive, reverse
        self.run(self.scanned, count, y, x, *args)

    def relu(self, y, x, count) -> None:
        self.run(bodies.relu, count, y, x, count)

    def relu_backward(self, dx, dy, y, count) -> None:
        self.run(bodies.relu_dx, count, dx, dy, y, count)

    def sgd(self, param, grad, count, lr) -> None:
        self.run(bodies.sgd, count, param, grad, count, np.float32(lr))

    def linear(self, y, x, weight, bias, n, ins, outs) -> None:
        bias = torch.zeros(outs) if bias is NULL else bias
        self.run(bodies.linear, n * outs, y, x, weight, bias, n, ins, outs)

    def linear_backward(self, dx, dweight, dbias, dy, x, weight, n, ins, outs) -> None:
        if dx is not NULL:
            self.run(bodies.linear_dx, n * ins, dx, dy, weight, n, ins, outs)
        if dweight is not NULL:
            self.run(bodies.linear_dweight, outs * ins, dweight, dy, x, n, ins, outs)
        if dbias is not NULL:
            self.run(bodies.linear_dbias, outs, dbias, dy, n, outs)

    def conv2d(self, y, x, weight, bias, *sizes) -> None:
        sizes = n, _, _, _, oc, *_, oh, ow = _conv_sizes(*sizes)
        bias = torch.zeros(oc) if bias is NULL else bias
        self.run(bodies.conv2d, n * oc * oh * ow, y, x, weight, bias, *sizes)

    def conv2d_backward(self, dx, dweight, dbias, dy, x, weight, *sizes) -> None:
        sizes = n, ic, h, w, oc, kh, kw, _, oh, ow = _conv_sizes(*sizes)
        if dx is not NULL:
            self.run(bodies.conv2d_dx, n * ic * h * w, dx, dy, weight, *sizes)
        if dweight is not NULL:
            taps = oc * ic * kh * kw
            self.run(bodies.conv2d_dweight, taps, dweight, dy, x, *sizes)
        if dbias is not NULL:
            self.run(bodies.conv2d_dbias, oc, dbias, dy, n, oc, oh, ow)

    def batchnorm2d(self, y, mean, rstd, x, weight, bias, n, c, h, w, eps) -> None:
        sizes, eps = (n, c, h * w), np.float32(eps)
        self.run(bodies.batchnorm2d_stats, c * THREADS, mean, rstd, x, *sizes, eps)
        inputs = (x, weight, bias, mean, rstd)
        self.run(bodies.batchnorm2d, n * c * h * w, y, *inputs, *sizes)

    def batchnorm2d_backward(
        self, dx, dweight, dbias, dy, x, weight, mean, rstd, n, c, h, w
    ) -> None:
        sizes, sums = (n, c, h * w), (dweight, dbias)
        inputs = (dy, x, mean, rstd)
        self.run(bodies.batchnorm2d_sums, c * THREADS, *sums, *inputs, *sizes)
        inputs = (*sums, dy, x, weight, mean, rstd)
        self.run(bodies.batchnorm2d_dx, n * c * h * w, dx, *inputs, *sizes)

    def maxpool2d(self, y, argmax, x, n, c, h, w, kh, kw) -> None:
        oh, ow = h // kh, w // kw
        sizes = n * c, h, w, oh, ow, kh, kw
        self.run(bodies.maxpool2d, n * c * oh * ow, y, argmax, x, *sizes)

    def maxpool2d_backward(self, dx, dy, argmax, n, c, h, w, kh, kw) -> None:
        sizes = n * c, h, w, h // kh, w // kw, kh, kw
        self.run(bodies.maxpool2d_dx, n * c * h * w, dx, dy, argmax, *sizes)

    def cross_entropy(self, loss, prob, logits, target, n, classes) -> None:
        self.run(bodies.cross_entropy, n, prob, logits, n, classes)
        sizes = target, n, classes
        self.run(bodies.cross_entropy_loss, THREADS, loss, logits, *sizes)

    def cross_entropy_backward(self, dlogits, dloss, prob, target, n, classes) -> None:
        dloss = torch.ones(1) if dloss is NULL else dloss
        inputs = dloss, prob, target, n, classes
        self.run(bodies.cross_entropy_dlogits, n * classes, dlogits, *inputs)


def _conv_sizes(n, ic, h, w, oc, kh, kw, options) -> tuple[int, ...]:
    padding = 0 if options == NULL else options.padding
    oh, ow = h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
    return n, ic, h, w, oc, kh, kw, padding, oh, ow
