"""The requirements of tests of the built site: its packages, and executed lessons."""

import importlib.util

import lessons
import pytest

NEEDED = ("sphinx", "myst_nb", "pydata_sphinx_theme", "latex2mathml", "brotli")
missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
needs_builder = pytest.mark.skipif(
    bool(missing), reason=f"not installed: {', '.join(missing)}"
)
needs_lessons = pytest.mark.skipif(
    not (lessons.BUILD / "01a_kernels_in_python.ipynb").exists(),
    reason="no lesson has been executed: make site",
)
