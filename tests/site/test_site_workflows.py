"""The workflows use only targets, options and folders that the checkout has."""

import re
import shlex
import subprocess
import sys

import pytest
import yaml

from weft.base.paths import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TOOLS = {"sudo", "make"}  # the programs that the runners have
MAKEFILE = (ROOT / "Makefile").read_text()


def list_steps(path):
    """Return (environment, step) of each step of a workflow."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [(job.get("env", {}), step) for job in jobs for step in job["steps"]]


def list_commands(path):
    """Return the words of each command that a workflow runs."""
    texts = (step["run"] for _, step in list_steps(path) if "run" in step)
    parts = (part for text in texts for part in re.split(r"&&|\n", text))
    return [shlex.split(part) for part in parts if part.strip()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_command_and_each_target_exists(path):
    commands = list_commands(path)
    assert commands
    targets = {
        t for line in re.findall(r"^([\w -]+):", MAKEFILE, re.M) for t in line.split()
    }
    for program, *words in commands:
        assert program in TOOLS, f"{path.name}: {program}"
        if program == "make":
            wanted = {word for word in words if "=" not in word}
            assert wanted and wanted <= targets, f"{path.name}: {wanted - targets}"


def test_the_site_s_program_knows_the_workflow_s_options():
    (site,) = (path for path in FILES if path.stem == "site")
    (command,) = list_commands(site)
    options = [w[5:].split() for w in command if w.startswith("ARGS=")]
    program = [sys.executable, str(ROOT / "docs/site/make_site.py")]
    done = subprocess.run([*program, "--help"], capture_output=True, text=True)
    assert options and done.returncode == 0
    for option in (o for o in options[0] if o.startswith("--")):
        assert option in done.stdout, option


def test_the_published_and_the_cached_folders_are_those_of_the_site_s_program():
    (site,) = (path for path in FILES if path.stem == "site")
    text = (ROOT / "docs/site/make_site.py").read_text()
    assert 'SITE = ROOT / "site"' in text
    lessons = (ROOT / "docs/site/lessons.py").read_text()
    assert 'BUILD = ROOT / "build" / "lessons"' in lessons
    given = [step.get("with", {}).get("path", "") for _, step in list_steps(site)]
    paths = [path for text in given for path in text.split()]
    assert {"site", "build/lessons/*.ipynb", "build/lessons/*.json"} == {*paths}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_folder_in_a_key_of_the_cache_exists(path):
    keys = [str(step.get("with", {}).get("key", "")) for _, step in list_steps(path)]
    for pattern in re.findall(r"'([^']+)'", " ".join(keys)):
        assert next(ROOT.glob(pattern), None), pattern
