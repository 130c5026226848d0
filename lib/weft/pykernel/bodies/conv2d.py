"""Convolution and its gradients: the naive rung of kernels/conv2d/conv2d.cu."""

from numpy import float32

from ... import cuda


def conv2d(y, x, weight, bias, n, ic, h, w, oc, kh, kw, padding, oh, ow):
    """y (n,oc,oh,ow) from x (n,ic,h,w) and weight (oc,ic,kh,kw)."""
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
    """dx: pixel (row,col) was seen by the pixels of dy that lie around it.

    Through filter position (r,s) by (row + padding - r, col + padding - s).
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
    """dweight: weight (o,c,r,s) met a pixel of x for each pixel (i,j) of dy.

    That is (i + r - padding, j + s - padding).
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
    """dbias[o] = the sum of dy over images and pixels."""
    o = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if o >= oc:
        return
    pixels = oh * ow
    acc = float32(0)
    for image in range(n):
        for i in range(pixels):
            acc += dy[(image * oc + o) * pixels + i]
    dbias[o] = acc
