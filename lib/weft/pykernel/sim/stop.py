"""What ends a thread from inside, before the engine has said whose fault it was."""

from __future__ import annotations

from .places import Place


class Stop(Exception):
    """A thread must not go on. kind: as in report/kinds.py; text: with the numbers.

    place: where, if known; array, index: what it was about to touch.
    """

    def __init__(
        self,
        kind: str,
        text: str,
        place: Place | None = None,
        array: str | None = None,
        index: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(text)
        self.kind, self.text, self.place = kind, text, place
        self.array, self.index = array, index
        self.thread: int | None = None  # its linear number, where no frame has it

    def of(self, thread: int) -> Stop:
        """This, about a thread that is not the one that runs."""
        self.thread = thread
        return self
