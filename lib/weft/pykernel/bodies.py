"""The lab's kernels as Python functions: one body for sim, numba_jit and cuda_c.

The layers of the CNN come first. Each matches the naive rung of its op in kernels/ line
by line. gather() reads a batch, as in kernels/mnist/layers.cu. The last kernels belong
to the first lessons: grey values, and two matrix products. matmul() corresponds to
kernels/matmul/02_coalesced.cu, and the lessons derive matmul_tiled(). The first rungs
of memory-bound ops are in bandwidth.py.

Arguments have the names and the order of the .cu file: outputs, inputs, sizes. Arrays
are flat, contiguous and float32, unless stated otherwise. Every argument is required.
Where C accepts NULL, pass zeros for a bias, and a one for dloss. Indices are ints, so
an array has fewer than 2^31 elements.

    sim(relu)[blocks_for(count), THREADS](y, x, count)

A kernel documented as "one block" per item sums in a tree over exactly THREADS threads.
All other kernels accept blocks of any size.
"""

import math

from numpy import float32

from .. import cuda

THREADS = 256  # threads per block, as in kernels/common/checks.cuh
TILE = 16  # side of a tile, and of a block that computes a tile


def blocks_for(count: int) -> int:
    """Return the number of blocks of THREADS threads that cover `count` elements."""
    return -(-count // THREADS)


def conv2d(y, x, weight, bias, n, ic, h, w, oc, kh, kw, padding, oh, ow):
    """Compute y (n,oc,oh,ow) from x (n,ic,h,w) and weight (oc,ic,kh,kw)."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * oc * oh * ow:
        return
    col = index % ow
    row = index // ow % oh
    o = index // ow // oh % oc
    image = index // ow // oh // oc

    acc = bias[o]
    for c in range(ic):
        for r in range(kh):
            for s in range(kw):
                i = row + r - padding
                j = col + s - padding
                if i < 0 or i >= h or j < 0 or j >= w:
                    continue  # a zero
                acc += (
                    x[((image * ic + c) * h + i) * w + j]
                    * weight[((o * ic + c) * kh + r) * kw + s]
                )
    y[index] = acc


def conv2d_dx(dx, dy, weight, n, ic, h, w, oc, kh, kw, padding, oh, ow):
    """Compute dx: for each pixel of x, sum weight * dy over the pixels it affects.

    Weight (r,s) connects (row,col) to (row + padding - r, col + padding - s) of dy.
    """
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * ic * h * w:
        return
    col = index % w
    row = index // w % h
    c = index // w // h % ic
    image = index // w // h // ic

    acc = float32(0)
    for o in range(oc):
        for r in range(kh):
            for s in range(kw):
                i = row + padding - r
                j = col + padding - s
                if i < 0 or i >= oh or j < 0 or j >= ow:
                    continue
                acc += (
                    dy[((image * oc + o) * oh + i) * ow + j]
                    * weight[((o * ic + c) * kh + r) * kw + s]
                )
    dx[index] = acc


def conv2d_dweight(dweight, dy, x, n, ic, h, w, oc, kh, kw, padding, oh, ow):
    """Compute dweight: add up dy * x over all pixels (i,j) of dy.

    For (i,j), weight (r,s) multiplies pixel (i + r - padding, j + s - padding) of x.
    """
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= oc * ic * kh * kw:
        return
    s = index % kw
    r = index // kw % kh
    c = index // kw // kh % ic
    o = index // kw // kh // ic

    acc = float32(0)
    for image in range(n):
        for i in range(oh):
            for j in range(ow):
                row = i + r - padding
                col = j + s - padding
                if row < 0 or row >= h or col < 0 or col >= w:
                    continue
                acc += (
                    dy[((image * oc + o) * oh + i) * ow + j]
                    * x[((image * ic + c) * h + row) * w + col]
                )
    dweight[index] = acc


def conv2d_dbias(dbias, dy, n, oc, oh, ow):
    """Compute dbias (oc), the sum of dy over images and pixels."""
    o = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if o >= oc:
        return
    pixels = oh * ow
    acc = float32(0)
    for image in range(n):
        for i in range(pixels):
            acc += dy[(image * oc + o) * pixels + i]
    dbias[o] = acc


def block_sum(value, partial):
    """Return to every thread the sum of `value` over the block's threads.

    partial: THREADS floats of shared memory.
    """
    tid = cuda.threadIdx.x
    partial[tid] = value
    cuda.syncthreads()  # all values are in `partial`
    half = THREADS // 2
    while half > 0:
        if tid < half:
            partial[tid] += partial[tid + half]
        cuda.syncthreads()  # the next round reads this round's sums
        half //= 2
    sum = partial[0]
    cuda.syncthreads()  # all threads have read the sum; `partial` may now change
    return sum


def element(i, k, c, plane):
    """Return the index of element i of channel k; plane = h * w."""
    return (i // plane * c + k) * plane + i % plane


def batchnorm2d_stats(mean, rstd, x, n, c, plane, eps):
    """Compute mean (c) and rstd (c) of x. One block per channel; eps is float32."""
    partial = cuda.shared.array(THREADS, float32)
    k = cuda.blockIdx.x
    count = n * plane

    sum = float32(0)
    for i in range(cuda.threadIdx.x, count, THREADS):
        sum += x[element(i, k, c, plane)]
    m = block_sum(sum, partial) / float32(count)

    squares = float32(0)
    for i in range(cuda.threadIdx.x, count, THREADS):
        distance = x[element(i, k, c, plane)] - m
        squares += distance * distance
    var = block_sum(squares, partial) / float32(count)

    if cuda.threadIdx.x == 0:
        mean[k] = m
        rstd[k] = float32(1) / math.sqrt(var + eps)


def batchnorm2d(y, x, weight, bias, mean, rstd, n, c, plane):
    """Compute y from x (n,c,plane) and its statistics. One thread per element."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= n * c * plane:
        return
    k = i // plane % c
    y[i] = (x[i] - mean[k]) * rstd[k] * weight[k] + bias[k]


def batchnorm2d_sums(dweight, dbias, dy, x, mean, rstd, n, c, plane):
    """Compute dbias (c) = sum of dy, dweight (c) = sum of dy * (x - mean) * rstd.

    One block per channel.
    """
    partial = cuda.shared.array(THREADS, float32)
    k = cuda.blockIdx.x
    count = n * plane

    sum = float32(0)
    products = float32(0)
    for i in range(cuda.threadIdx.x, count, THREADS):
        at = element(i, k, c, plane)
        sum += dy[at]
        products += dy[at] * ((x[at] - mean[k]) * rstd[k])
    sum = block_sum(sum, partial)
    products = block_sum(products, partial)

    if cuda.threadIdx.x == 0:
        dbias[k] = sum
        dweight[k] = products


def batchnorm2d_dx(dx, dweight, dbias, dy, x, weight, mean, rstd, n, c, plane):
    """Compute dx: x affects y directly, through the mean and through the variance.

    Hence the mean and the part along xhat are removed from dy. One thread per element.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= n * c * plane:
        return
    k = i // plane % c
    count = float32(n * plane)
    xhat = (x[i] - mean[k]) * rstd[k]
    dx[i] = weight[k] * rstd[k] * (dy[i] - dbias[k] / count - xhat * dweight[k] / count)


def relu(y, x, count):
    """Compute y (count) = max(x, 0) with a thread per element."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= count:
        return
    # A comparison with NaN is false, so in this order a NaN remains a NaN.
    y[i] = float32(0) if x[i] < float32(0) else x[i]


def relu_dx(dx, dy, y, count):
    """Compute dx (count): dy where y is above 0, else 0. One thread per element."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= count:
        return
    dx[i] = dy[i] if y[i] > float32(0) else float32(0)


def maxpool2d(y, argmax, x, planes, h, w, oh, ow, kh, kw):
    """Compute y, and argmax (int32), both (planes,oh,ow), from x (planes,h,w)."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= planes * oh * ow:
        return
    col = index % ow
    row = index // ow % oh
    plane = index // ow // oh
    window = (plane * h + row * kh) * w + col * kw

    most = x[window]
    where = 0
    for i in range(kh):
        for j in range(kw):
            value = x[window + i * w + j]
            # Only a NaN differs from itself. A NaN replaces a number, but not an
            # earlier NaN.
            nan_wins = value != value and most == most
            if value > most or nan_wins:
                most = value
                where = i * kw + j
    y[index] = most
    argmax[index] = where


def maxpool2d_dx(dx, dy, argmax, planes, h, w, oh, ow, kh, kw):
    """Compute dx (planes,h,w): dy at a window's maximum, else 0. A thread per pixel."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= planes * h * w:
        return
    col = index % w
    row = index // w % h
    plane = index // w // h

    gradient = float32(0)
    # The last rows and columns may belong to no window.
    if row // kh < oh and col // kw < ow:
        window = (plane * oh + row // kh) * ow + col // kw
        if argmax[window] == row % kh * kw + col % kw:
            gradient = dy[window]
    dx[index] = gradient


def linear(y, x, weight, bias, n, in_, out):
    """Compute y[row][col] = bias[col] + sum over i of x[row][i] * weight[col][i]."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * out:
        return
    row = index // out
    col = index % out
    acc = bias[col]
    for i in range(in_):
        acc += x[row * in_ + i] * weight[col * in_ + i]
    y[index] = acc


def linear_dx(dx, dy, weight, n, in_, out):
    """Compute dx[row][i], the sum over col of dy[row][col] * weight[col][i]."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * in_:
        return
    row = index // in_
    i = index % in_
    acc = float32(0)
    for col in range(out):
        acc += dy[row * out + col] * weight[col * in_ + i]
    dx[index] = acc


def linear_dweight(dweight, dy, x, n, in_, out):
    """Compute dweight[col][i], the sum over row of dy[row][col] * x[row][i]."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= out * in_:
        return
    col = index // in_
    i = index % in_
    acc = float32(0)
    for row in range(n):
        acc += dy[row * out + col] * x[row * in_ + i]
    dweight[index] = acc


def linear_dbias(dbias, dy, n, out):
    """Compute dbias[col], the sum over row of dy[row][col]."""
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if col >= out:
        return
    acc = float32(0)
    for row in range(n):
        acc += dy[row * out + col]
    dbias[col] = acc


def row_max(x, first, classes):
    """Return the largest of x[first .. first + classes)."""
    most = x[first]
    for j in range(1, classes):
        most = x[first + j] if x[first + j] > most else most
    return most


def row_sum(x, first, classes, most):
    """Return the sum of exp(x - most) over x[first .. first + classes)."""
    total = float32(0)
    for j in range(classes):
        total += math.exp(x[first + j] - most)
    return total


def cross_entropy(prob, logits, n, classes):
    """Compute prob (n,classes), the softmax of logits, with a thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= n:
        return
    x = row * classes
    most = row_max(logits, x, classes)
    sum = row_sum(logits, x, classes, most)
    for j in range(classes):
        prob[x + j] = math.exp(logits[x + j] - most) / sum


def cross_entropy_loss(loss, logits, target, n, classes):
    """Compute loss (1), the mean of the rows' losses, in one block; target: int64."""
    partial = cuda.shared.array(THREADS, float32)
    tid = cuda.threadIdx.x

    acc = float32(0)
    for row in range(tid, n, THREADS):
        x = row * classes
        most = row_max(logits, x, classes)
        sum = row_sum(logits, x, classes, most)
        # A kernel cannot raise an error for a bad target, so the loss becomes NaN.
        bad = target[row] < 0 or target[row] >= classes
        acc += (
            float32(math.nan)
            if bad
            else math.log(sum) - (logits[x + target[row]] - most)
        )
    partial[tid] = acc
    cuda.syncthreads()  # all threads have stored their sums
    half = THREADS // 2
    while half > 0:
        if tid < half:
            partial[tid] += partial[tid + half]
        cuda.syncthreads()  # the next round reads this round's sums
        half //= 2
    if tid == 0:
        loss[0] = partial[0] / float32(n)


def cross_entropy_dlogits(dlogits, dloss, prob, target, n, classes):
    """Compute dlogits = (prob - onehot(target)) * dloss / n. One thread per element."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * classes:
        return
    col = index % classes
    wanted = target[index // classes]
    bad = wanted < 0 or wanted >= classes
    onehot = float32(math.nan) if bad else float32(1) if col == wanted else float32(0)
    dlogits[index] = (prob[index] - onehot) * (dloss[0] / float32(n))


def sgd(param, grad, count, lr):
    """Subtract lr * grad from param (count); lr: float32. One thread per parameter."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        param[i] -= lr * grad[i]


def gather(x, target, images, labels, order, batch, pixels, mean, std):
    """Compute x (batch,pixels) = (p / 255 - mean) / std of the images order[0..batch).

    target (batch), int64: their labels. images (count,pixels) and labels (count) are
    uint8, order is int32, mean and std are float32. One thread per pixel.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= batch * pixels:
        return
    image = order[i // pixels]
    pixel = i % pixels
    p = images[image * pixels + pixel]
    x[i] = (float32(p) / float32(255) - mean) / std
    if pixel == 0:
        target[i // pixels] = labels[image]


# ---- the first lessons ----


def grey(y, x, n):
    """Compute y (n) from the RGB planes of x (3,n). One thread per pixel."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        red, green, blue = x[i], x[n + i], x[2 * n + i]
        y[i] = float32(0.2989) * red + float32(0.587) * green + float32(0.114) * blue


def matmul(c, a, b, m, n, k):
    """Compute c (m,n) = a (m,k) @ b (k,n) with a thread per element of c."""
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[i * n + col]
        c[row * n + col] = acc


def matmul_tiled(c, a, b, m, n, k):
    """Compute c (m,n) = a (m,k) @ b (k,n); TILE x TILE threads share tiles."""
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx  # tx runs along a row: coalesced

    acc = float32(0)
    for k0 in range(0, k, TILE):
        # Load zeros past an edge, since they add nothing. A thread that returned early
        # would leave a hole in the tile that its neighbours read.
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and k0 + tx < k else float32(0)
        b_s[ty, tx] = b[(k0 + ty) * n + col] if k0 + ty < k and col < n else float32(0)
        cuda.syncthreads()  # both tiles are complete ...
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()  # ... and read, so they may be overwritten
    if row < m and col < n:
        c[row * n + col] = acc
