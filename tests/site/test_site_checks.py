"""The checks that the built site must pass find each kind of problem."""

import check_site
import pytest

GOOD = '<html><body><h1 id="top">T</h1><img alt="a cloth" src="a.png"></body></html>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.png").write_bytes(b"png")
    (tmp_path / "index.html").write_text(GOOD)
    return tmp_path


def problems_with(site, body):
    check_site.read_page.cache_clear()
    (site / "page.html").write_text(f"<html><body>{body}</body></html>")
    return check_site.list_problems(site)


@pytest.mark.parametrize(
    "body",
    [
        '<a href="index.html#top">x</a><a href="https://x.org">y</a>',
        '<a href="#">the top</a>',
        '<svg aria-label="a grid"></svg><svg><title>a grid</title></svg>',
        '<svg aria-hidden="true"><path/></svg>',
        '<img alt="a dot" src="data:image/png;base64,AA">',
    ],
)
def test_a_good_page_has_no_problem(site, body):
    assert problems_with(site, body) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<a href="gone.html">x</a>', "broken link gone.html"),
        ('<a href="index.html#gone">x</a>', "broken link index.html#gone"),
        ('<img src="a.png">', "no alternative text"),
        ('<svg width="3"><path/></svg>', "no alternative text"),
        ('<script src="https://cdn.org/a.js"></script>', "loads https://cdn.org/a.js"),
        ('<link rel="stylesheet" href="//cdn.org/a.css">', "loads //cdn.org/a.css"),
    ],
)
def test_each_problem_is_found(site, body, words):
    (problem,) = problems_with(site, body)
    assert problem.startswith(f"page.html: {words}")


def test_a_page_that_is_too_large_with_what_it_loads_is_found(site, monkeypatch):
    (site / "large.png").write_bytes(bytes(1000))
    monkeypatch.setattr(check_site, "LARGEST", 900)
    (problem,) = problems_with(site, '<img alt="a" src="large.png">')
    assert "page.html: 1 kB, above 1" in problem
