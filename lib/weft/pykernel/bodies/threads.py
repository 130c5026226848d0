"""How many threads the bodies are launched with, as in kernels/common/checks.cuh."""

THREADS = 256  # of a block


def blocks_for(count: int) -> int:
    """How many blocks of THREADS threads cover `count` elements."""
    return -(-count // THREADS)
