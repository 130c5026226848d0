"""Answers to the puzzle the_hang."""

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("the_hang")
def by_swaps(out, ready, ticket, a):
    i = cuda.atomic.inc(ticket, 0, 1 << 30)
    if i > 0:
        while cuda.atomic.cas(ready, i - 1, 1, 1) == 0:
            pass
    cuda.threadfence()
    if i > 0:
        out[i] = out[i - 1] + a[i]
    else:
        out[i] = a[i]
    cuda.threadfence()
    cuda.atomic.add(ready, i, 1)


HEAD = "__global__ void chain(int *out, int *ready, int *ticket, const int *a) {"
BODY = """
    if (i > 0) while (atomicAdd(&ready[i - 1], 0) == 0) {}
    __threadfence();
    out[i] = i == 0 ? a[i] : out[i - 1] + a[i];
    __threadfence();
    atomicExch(&ready[i], 1);
}"""

right_c("the_hang", HEAD + "const int i = atomicAdd(ticket, 1);" + BODY)
wrong_c(
    "the_hang",
    HEAD + "const int i = blockIdx.x; atomicAdd(ticket, 1);" + BODY,
    says=r"thread 0 of block \d+ still waits for ready\[\d+\], whose value was 0",
)


@wrong("the_hang", says="in reverse: .*it waits for a change that no thread makes")
def the_ticket_is_not_used(out, ready, ticket, a):
    cuda.atomic.add(ticket, 0, 1)
    i = cuda.blockIdx.x
    while i > 0 and cuda.atomic.add(ready, i - 1, 0) == 0:
        pass
    cuda.threadfence()
    out[i] = a[i] if i == 0 else out[i - 1] + a[i]
    cuda.threadfence()
    cuda.atomic.exch(ready, i, 1)


@wrong("the_hang", says=r"(?s)race|nothing orders|ticket\[0\]")
def the_ticket_is_not_atomic(out, ready, ticket, a):
    i = ticket[0]
    ticket[0] = i + 1
    while i > 0 and cuda.atomic.add(ready, i - 1, 0) == 0:
        pass
    cuda.threadfence()
    out[i] = a[i] if i == 0 else out[i - 1] + a[i]
    cuda.threadfence()
    cuda.atomic.exch(ready, i, 1)


@wrong("the_hang", says=r"(?s)nothing orders|out\[\d+\] is")
def does_not_wait(out, ready, ticket, a):
    i = cuda.atomic.add(ticket, 0, 1)
    out[i] = a[i] if i == 0 else out[i - 1] + a[i]
    cuda.threadfence()
    cuda.atomic.exch(ready, i, 1)


@wrong("the_hang", says="it waits for a change that no thread makes")
def counts_from_one(out, ready, ticket, a):
    i = cuda.atomic.add(ticket, 0, 1) + 1
    while i > 0 and cuda.atomic.add(ready, i - 1, 0) == 0:
        pass
    cuda.threadfence()
    out[i] = a[i] if i == 0 else out[i - 1] + a[i]
    cuda.threadfence()
    cuda.atomic.exch(ready, i, 1)
