"""Random input causes no error or one of the lab's own; `make fuzz` tries
more."""

import pytest
from fuzz.fuzzers import FUZZERS


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_random_input_raises_only_the_labs_own_errors(name, tmp_path):
    fuzzer = FUZZERS[name]
    fuzzer.run(fuzzer.short, 0, tmp_path)
