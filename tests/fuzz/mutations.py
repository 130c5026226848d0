"""Sources with a few typing errors, and with larger damage."""

import functools
import re

from weft.base.paths import ROOT

PIECES = [
    *("(", ")", "{", "}", "[", "]", "<", ">", "<<<", ">>>", ";", ",", '"', "'", "\\"),
    *("//", "/*", "*/", "#", "#if 0\n", "#endif\n", "#define X \\\n", 'R"(', ")"),
    *("__global__ ", "__shared__ ", "__device__ ", "extern ", "template <", "struct "),
    *("__launch_bounds__(", "typedef ", "using X = ", "namespace n {", "operator ()"),
    *("return", "*", "&", "=", "...", "::", "const ", "volatile ", "\n", "\t", " "),
    *("\0", "\x01", "é", "\ufeff", "𝄞", "1'000", "0x1p-3", "blockIdx . x", "?", ":"),
]
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
LONGEST = 6000  # maximum characters of a source to mutate


@functools.cache
def sources():
    """Return the texts of all CUDA C in the tree, long ones in parts."""
    texts = []
    for suffix in ("*.cu", "*.cuh"):
        for path in sorted(ROOT.rglob(suffix)):
            if not {".venv", "build"} & set(path.relative_to(ROOT).parts):
                texts += _parts(path.read_text(errors="replace"))
    return texts


def _parts(text):
    lines, parts = text.splitlines(keepends=True), [""]
    for line in lines:
        if len(parts[-1]) + len(line) > LONGEST:
            parts.append("")
        parts[-1] += line
    return parts


def source(random):
    """Return one of the sources, changed in one to four places."""
    text = random.choice(sources())
    for _ in range(random.randint(1, 4)):
        text = change(random, text)
    return text


def change(random, text):
    """Return the text with one change."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return random.choice(PIECES)
    at = random.randint(0, len(tokens) - 1)
    kind = random.randint(0, 6)
    if kind == 0:
        del tokens[at]
    elif kind == 1:
        tokens.insert(at, random.choice(PIECES))
    elif kind == 2:
        tokens[at] = random.choice(PIECES)
    elif kind == 3:
        tokens.insert(at, tokens[random.randint(0, len(tokens) - 1)])
    elif kind == 4:
        del tokens[at : at + random.randint(1, 30)]
    elif kind == 5:
        tokens[at:at] = tokens[random.randint(0, len(tokens) - 1) :][:20]
    else:
        del tokens[at:]
    return "".join(tokens)


def damaged(random, data):
    """Return the bytes with one to four changes."""
    result = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, max(len(result) - 1, 0))
        kind = random.randint(0, 3)
        if kind == 0:
            result[at : at + 1] = bytes([random.randint(0, 255)])
        elif kind == 1:
            del result[at : at + random.randint(1, 100)]
        elif kind == 2:
            result[at:at] = result[:50]
        else:
            del result[at:]
    return bytes(result)
