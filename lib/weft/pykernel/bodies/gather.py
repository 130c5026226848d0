"""A batch as the network reads it: gather() of kernels/mnist/layers.cu."""

from numpy import float32

from ... import cuda


def gather(x, target, images, labels, order, batch, pixels, mean, std):
    """x (batch,pixels) = (p / 255 - mean) / std of the images order[0..batch).

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
