"""The scanner of CUDA C: brackets, scopes and functions."""

import pytest

from weft.csource import scanner


@pytest.mark.parametrize(
    "code, end",
    [
        *[("(a(b)c)d)", 6), ("{ a[{}] } }", 8), ("[a[1]]", 5)],
        *[("<(a > b), c>", 11), ("<a<b>>", 5), ("((", -1), ("<(>", -1)],
    ],
)
def test_brackets_are_matched_from_both_ends(code, end):
    assert scanner.find_close(code, 0) == end
    if end >= 0:
        assert scanner.find_open(code, end) == 0


def test_a_bracket_without_a_partner_is_not_found():
    assert scanner.find_open("a)", 1) == -1
    with pytest.raises(scanner.RewriteError, match=r"^x\.cu:2: this '\(' is never"):
        scanner.ScannedText("\nk(", "x.cu").close(2)


def test_commas_split_outside_of_brackets():
    code = "a<b, c> d, e(f, g), h = {1, 2}"
    parts = [code[a:b].strip() for a, b in scanner.split_commas(code, 0, len(code))]
    assert parts == ["a<b, c> d", "e(f, g)", "h = {1, 2}"]
    assert scanner.find_outside("f(a; b)[;] ; c", 0, ";") == 11
    assert scanner.find_outside("f(;", 0, ";") == 3


def test_the_scope_of_an_offset():
    code = "namespace a::b { extern   { inline namespace c { x } } struct S { y } } z"
    assert scanner.scope_at(code, code.index("x }")) == "a::b::c::"
    assert scanner.scope_at(code, code.index("y }")) is None
    assert scanner.scope_at(code, code.index("z")) == ""


def test_code_under_if_0_is_blank_with_its_directives():
    source = (
        "#if 0\nint a;\n#if X\n#define N 1\n#endif\nint b;\n#else\nint c;\n#endif\n"
    )
    blank = scanner.blank_comments(source)
    assert len(blank) == len(source)
    assert "int c;" in blank and "int a" not in blank and "int b" not in blank
    assert not scanner.DEFINE.search(blank)


def test_functions_are_found_by_their_specifier():
    code = (
        "__global__ void __launch_bounds__(64) k(int n); __device__ float f() { }"
        "__device__ int x; template <> __global__ void t<int>(int) { }"
    )
    functions = list(scanner.list_functions(code, scanner.DEVICE))
    assert [one.name for one in functions] == ["k", "f", "t"]
    assert [one.brace and code[one.brace] for one in functions] == [None, "{", "{"]
    assert [one.is_specialised for one in functions] == [False, False, True]


def test_a_body_is_that_of_the_definition():
    source = "void k(int);\nvoid f() { if (k(1)) { } }\nvoid k(int) { /* none */ x; }"
    assert scanner.read_body(source, "k").split() == ["x;"]
    assert scanner.read_body(source, "g") is None
