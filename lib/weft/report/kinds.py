"""The kinds of findings, each with what it means."""

from __future__ import annotations

UPDATE = "update"  # of a race: each thread reads one element, and writes it again

IN_PLACE = "in place"  # ... one statement reads what another thread's one overwrites

KINDS = {
    "bounds": "an access outside of an array",
    "race": "a read and a write of one element with nothing that orders them",
    "unwaited": "an access to memory that a copy, not waited for, brings or takes",
    "conflict": "different values written to one element by several threads",
    "uninitialised": "a read of an element that nobody has written",
    "barrier": "a barrier that some threads of a block reach and others do not",
    "absent-lane": "a lane that a warp's call names or reads and that takes no part",
    "deadlock": "threads that wait for one another for ever",
    "hang": "a launch that does not end",
    "misaligned": "an access whose address is no multiple of its size",
    "use-after-free": "an access to memory that was given back",
    "host-pointer": "an access to the host's memory from a kernel",
    "stack": "more local memory than a thread has",
    "undefined": "a shift or a conversion with a result on a GPU, and none in C++",
    "exception": "an error that a thread raised",
}
