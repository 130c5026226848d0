"""Processes that judge mutants and are ended if they hang."""

import multiprocessing
import os
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

SECONDS = 120  # time limit of a mutant
REFUSED, SURVIVES, HANGS = "refused", "survives", "hangs"


def judged(tasks: dict[str, tuple], judge, jobs: int) -> Iterator[tuple[str, str]]:
    """Yield each task's name with its outcome: REFUSED, SURVIVES, HANGS or an error.

    judge(*task) returns whether it is refused. Outcomes are in the order of the tasks.
    """
    idle = SimpleQueue()
    for _ in range(jobs):
        idle.put(Worker(judge))

    def run(task):
        worker = idle.get()
        try:
            return worker.run(task)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(tasks, pool.map(run, tasks.values()))
    for _ in range(jobs):
        idle.get().end()


class Worker:
    """One worker process; it is restarted after it was killed."""

    def __init__(self, judge):
        self.judge, self.process = judge, None

    def run(self, task: tuple) -> str:
        if self.process is None:
            self._begin()
        self.pipe.send(task)
        try:
            if self.pipe.poll(SECONDS):
                return self.pipe.recv()
            outcome = HANGS
        except EOFError:
            self.process.join()
            outcome = f"ends the process with status {self.process.exitcode}"
        self.end()
        return outcome

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def _begin(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        args = self.judge, theirs
        self.process = context.Process(target=_serve, args=args, daemon=True)
        self.process.start()
        theirs.close()
        self.pipe.recv()  # the worker has imported its modules


def _serve(judge, pipe):
    os.environ["WEFT_SMALL"] = "1"  # the lab must not store solved exercises
    pipe.send("ready")
    while True:
        task = pipe.recv()
        try:
            outcome = REFUSED if judge(*task) else SURVIVES
        except BaseException as error:
            outcome = "".join(traceback.format_exception(error, limit=-4, chain=False))
        pipe.send(outcome)
