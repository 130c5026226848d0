"""Maxima of windows and their gradient: the naive rung of kernels/maxpool2d.cu."""

from numpy import float32

from ... import cuda


def maxpool2d(y, argmax, x, planes, h, w, oh, ow, kh, kw):
    """y and argmax (int32), (planes,oh,ow), of x (planes,h,w): oh = h // kh."""
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
            # A NaN, the only thing that differs from itself, beats every number,
            # but no NaN before it.
            nan_wins = value != value and most == most
            if value > most or nan_wins:
                most = value
                where = i * kw + j
    y[index] = most
    argmax[index] = where


def maxpool2d_dx(dx, dy, argmax, planes, h, w, oh, ow, kh, kw):
    """dx (planes,h,w): each window's dy goes to its maximum. One thread a pixel."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= planes * h * w:
        return
    col = index % w
    row = index // w % h
    plane = index // w // h

    gradient = float32(0)
    # The last rows and columns may be in no window.
    if row // kh < oh and col // kw < ow:
        window = (plane * oh + row // kh) * ow + col // kw
        if argmax[window] == row % kh * kw + col % kw:
            gradient = dy[window]
    dx[index] = gradient
