"""How many threads the bodies are launched with, as kernels/checks.cuh has it."""

THREADS = 256  # of a block


def blocks_for(count: int) -> int:
    """How many blocks of THREADS threads cover `count` elements."""
    return -(-count // THREADS)
