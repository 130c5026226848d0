"""The launchers of a package are found, described, or refused in one sentence."""

import pytest

from weft import ArgumentError
from weft.csource import signature
from weft.programs.wheel import describe_launcher, read_contents

KERNEL = "__global__ void fill(float *y, int n) { y[0] = n; }\n"
START = "{ fill<<<1, 1>>>(0, 1); }\n"


def describe(parameters: str, name: str = "f") -> dict:
    (one,) = signature.list_launchers(f"void {name}({parameters}) {START}")
    return describe_launcher(one.signature)


def test_callers_of_launchers_are_launchers_and_other_functions_are_not():
    source = (
        KERNEL
        + "static int blocks(int n) { return n; }\n"
        + f"static void start(float *y) {START}"
        + "// void comment() { fill<<<1, 1>>>(0, 1); }\n"
        + 'extern "C" void first(float *y) { start(y); }\n'
        + "namespace inner { void second() { first(nullptr); } }\n"
        + f"int main() {START}"
        + "void declared(float *y);\n"
    )
    found = signature.list_launchers(source)
    names = {one.signature.name: one.is_callable for one in found}
    expected = {"start": False, "first": True, "second": True, "main": False}
    assert names == expected
    assert [one.signature.scope for one in found] == ["", "", "inner::", ""]


@pytest.mark.parametrize("name", ["n", "count", "size", "numel"])
def test_outputs_before_inputs_with_their_size_are_returned(name):
    row = describe(f"float *y, const float *x, float a, size_t {name}, cudaStream_t s")
    assert row["returns"]
    roles = [param["role"] for param in row["params"]]
    assert roles == ["output", "input", "number", "count", "stream"]


@pytest.mark.parametrize(
    "parameters",
    [
        "float *c, const float *a, const float *b, int m, int n, int k",
        "const float *x, float *y, int n",
        "float *y, float a, int n",
        "float *y, float *z, const float *x, int n",
        "float *y, const float *x, int length",
        "float *y, const float *x, int n, int seed",
    ],
)
def test_other_launchers_have_the_parameters_of_c(parameters):
    assert not describe(parameters)["returns"]


def test_rows_and_cols_are_sizes_and_a_backward_pass_has_several_outputs():
    text = "float *dx, float *dw, const float *dy, const float *x, const float *w"
    row = describe(f"{text}, int rows, int cols", "f_backward")
    assert row["returns"]
    assert [param["role"] for param in row["params"][-2:]] == ["rows", "cols"]


def test_words_of_python_get_an_underscore():
    row = describe("float *lambda, const float *in, int n")
    assert [param["name"] for param in row["params"]] == ["lambda_", "in_", "n"]


REFUSED = {
    "there is no __global__ function": "void f() {}",
    "kernel fill has no launcher: write a function": KERNEL,
    "only main() and static functions": KERNEL + f"static void f() {START}",
    "'struct box b', and a package supports": KERNEL
    + f"struct box {{ int w; }};\nvoid f(struct box b) {START}",
    "'float4 v'": KERNEL + f"void f(float4 v) {START}",
    "'float **rows'": KERNEL + f"void f(float **rows) {START}",
    "f returns float, expected void, int or cudaError_t": KERNEL
    + "float f() { fill<<<1, 1>>>(0, 1); return 0; }\n",
    "f is a template": KERNEL + f"template <class T> void f(T *y) {START}",
    "f is in the namespace inner": KERNEL + f"namespace inner {{ void f() {START} }}",
    "f has a parameter without a name": KERNEL + f"void f(float *) {START}",
    "test has a name that Python or the package uses": KERNEL + f"void test() {START}",
    "two launchers have the name f": KERNEL + f"void f() {START}void f(int n) {START}",
}


@pytest.mark.parametrize("expected", REFUSED)
def test_unusable_sources_are_refused_in_one_sentence(tmp_path, expected):
    path = tmp_path / "mine.cu"
    path.write_text(REFUSED[expected])
    with pytest.raises(ArgumentError) as error:
        read_contents(str(path))
    assert expected in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("1st", "is no Python identifier"),
        ("my-op", "is no Python identifier"),
        ("class", "is no Python identifier"),
        ("json", "is the name of another package"),
        ("numpy", "is the name of another package"),
    ],
)
def test_unusable_names_are_refused(tmp_path, name, expected):
    path = tmp_path / f"{name}.cu"
    path.write_text(KERNEL + f"void f() {START}")
    with pytest.raises(ArgumentError, match=f"'{name}' {expected}"):
        read_contents(str(path))


def test_what_is_neither_file_nor_op_is_refused_with_the_ops():
    with pytest.raises(ArgumentError, match=r"no_such .*; the ops are .*\brelu\b"):
        read_contents("no_such")


def test_an_op_hides_its_rung_and_a_folder_joins_its_files(tmp_path):
    rows = {row["name"]: row for row in read_contents("polynomial").launchers}
    assert set(rows) == {"polynomial", "polynomial_backward"}
    names = [param["name"] for param in rows["polynomial"]["params"]]
    assert names == ["y", "x", "count", "a0", "a1", "a2", "a3", "stream"]
    assert all(row["returns"] for row in rows.values())
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "a.cu").write_text(KERNEL + f"void f() {START}")
    (folder / "b.cu").write_text(KERNEL + f"void g() {START}")
    contents = read_contents(str(folder))
    assert contents.name == "both"
    assert [row["name"] for row in contents.launchers] == ["f", "g"]
