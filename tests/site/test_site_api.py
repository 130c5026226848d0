"""The reference of the public names is complete, and its text is plain."""

import inspect
import re

from pages import api

import utils
import weft
from weft.base.paths import KERNELS


def test_every_public_name_of_weft_is_described():
    headings = re.findall(
        r"^### weft\.(\S+)$", api.write_weft().replace("\\", ""), re.M
    )
    assert {*headings} == {*weft.__all__} - {"cuda"}


def test_each_name_has_one_place_and_a_class_lists_its_methods():
    page = api.write_weft()
    places = re.findall(r"^\((\S+)\)=$", page, re.M)
    assert len(places) == len({*places})
    assert {"weft-tape", "weft-tape-backward", "weft-tape-log-softmax"} <= {*places}
    assert "\nweft.Tape.step(lr: float)\n" in page
    assert "weft-mismatch" in places and "weft-tape--record" not in places


def test_every_name_of_utils_is_mentioned():
    text = api.write_utils().replace("\\", "")
    assert all(re.search(rf"\b{name}\b", text) for name in utils.__all__)


def test_the_language_of_kernels_includes_its_namespaces():
    text = api.write_cuda().replace("\\", "")
    for name in ("threadIdx", "grid", "syncthreads", "shared.array", "atomic.add"):
        assert f"# cuda.{name}\n" in text


def test_every_function_of_the_header_is_listed():
    header = (KERNELS / "weft.h").read_text()
    page = api.write_header(header)
    assert {*re.findall(r"\bweft_\w+(?=\()", header)} == {
        *re.findall(r"\bweft_\w+(?=\()", page.replace("\\", ""))
    }
    assert "/* ----" not in page and "pragma" not in page


def test_a_signature_keeps_its_defaults():
    def call(kernel: "int", *, order: "str" = "forward", **more):
        """Call."""

    text = "f(kernel: int, *, order: str = 'forward', **more)"
    assert api.write_signature("f", call) == text


def test_parameters_become_a_list_and_code_stays_code():
    text = api.write_text(
        inspect.cleandoc("""Do it.

    size: elements of
        the array. Always.
    x, y: arrays.

        f(x)  # *all*
    """)
    )
    assert "- `size`: elements of the array. Always.\n- `x, y`: arrays." in text
    assert "```text\nf(x)  # *all*\n```" in text


def test_words_that_markdown_would_change_are_escaped():
    assert api.escape("a*b_c `d_e` <f>") == r"a\*b\_c `d_e` \<f\>"
