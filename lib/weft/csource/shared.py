"""Rewrite __shared__ declarations and lockstep warps for the simt runtime.

Kernels from before 2017 sum the halves of a warp without a __syncwarp():

    volatile float *s = shared;
    s[i] += s[i + 32];
    s[i] += s[i + 16];

These kernels rely on every lane reading before any lane writes, and declare the array
`volatile`. Such a statement becomes s[i] += simt::lockstep([&] { return s[i + 32]; }).
The lanes that reach it together then meet before the write and after it.

__shared__ declarations become members of a struct that the runtime places.
"""

from __future__ import annotations

import re

from .scanner import (
    ATTRIBUTE,
    BLANK,
    RewriteError,
    ScannedText,
    find_body,
    function_depths,
    on_one_line,
    replace_spans,
    split_commas,
)

_POINTER = r"(?:\s|\*|\bconst\b|\b__restrict__\b)*\*(?:\s|\bconst\b|\b__restrict__\b)*"
_VOLATILE = re.compile(
    rf"\bvolatile\b[\w\s:]*{_POINTER}(?P<pointer>\w+)"
    r"|\b__shared__\b[\w\s]*\bvolatile\b[\w\s]*?\b(?P<after>\w+)\s*\["
    r"|\bvolatile\b[\w\s]*\b__shared__\b[\w\s]*?\b(?P<before>\w+)\s*\["
)
_CLASS = re.compile(r"\b(?:struct|class|union)\b[^;{}()]*\Z")
_ASSIGNED = r"\b(?P<name>{names})\s*\[[^;{{}}=]*\]\s*(?:[-+*/|&^]|<<|>>)?=(?!=)"


def rewrite_lockstep(text: ScannedText) -> str:
    scopes: dict[str, list[range]] = {}
    for match in _VOLATILE.finditer(text.code):
        scopes.setdefault(match[match.lastgroup], []).append(
            _scope_before(text, match.end())
        )
    if not scopes:
        return text.raw

    def is_volatile(match: re.Match[str]) -> bool:
        return any(match.start() in scope for scope in scopes[match["name"]])

    names = "|".join(map(re.escape, sorted(scopes)))
    reads = re.compile(rf"\b(?P<name>{names})\s*\[")
    edits = []
    for match in re.finditer(_ASSIGNED.format(names=names), text.code):
        end = text.code.find(";", match.end())
        value = text.code[match.end() : end]
        # Rewrite only single statements that read elements written by other lanes.
        is_balanced = value.count("(") == value.count(")")
        is_plain = is_balanced and not re.search(r"[{}#]", value)
        if not (end > 0 and is_plain and is_volatile(match)):
            continue
        if any(
            is_volatile(read) for read in reads.finditer(text.code, match.end(), end)
        ):
            # In s[i]=s[j]; no space precedes the value, but `return` needs one.
            space = "" if value[0].isspace() else " "
            opening = f" simt::lockstep([&] {{ return{space}"
            edits.append((match.end(), match.end(), opening))
            edits.append((end, end, "; })"))
    return replace_spans(text, edits)


def _scope_before(text: ScannedText, offset: int) -> range:
    """Return the range in which a declaration that ends at `offset` is valid.

    For a parameter, this is the body of the function; for a class member, the rest of
    the file; for any other name, the rest of the enclosing braces or of the file.
    """
    open_brackets: list[int] = []
    for match in re.finditer(r"[(){}]", text.code[:offset]):
        if match.group() in "({":
            open_brackets.append(match.start())
        elif open_brackets:
            open_brackets.pop()
    rest_of_file = range(offset, len(text.code))
    if not open_brackets:
        return rest_of_file
    kind = text.code[open_brackets[-1]]
    if kind == "{" and _CLASS.search(text.code, 0, open_brackets[-1]):
        return rest_of_file
    try:
        end = text.close(open_brackets[-1])
        if kind == "{":
            return range(offset, end)
        start = find_body(text.code, end + 1)
        return range(start, text.close(start)) if start else range(0)
    except RewriteError:  # an #if may have unbalanced braces in its branches
        return rest_of_file


# Text that may precede __shared__: `static`, which has no effect here, and words that
# belong to the type.
_BEFORE_SHARED = re.compile(
    rf"(?:(?:{ATTRIBUTE.pattern}|\b[A-Za-z_]\w*(?:\s*::\s*\w+)*)\s*)+$"
)
_NOT_OF_THE_TYPE = re.compile(r"\b(?:extern|static|__device__|inline)\b")


def rewrite_shared(text: ScannedText) -> str:
    edits = []
    depths = function_depths(text.code)
    for number, match in enumerate(re.finditer(r"\b__shared__\b", text.code)):
        end = text.code.find(";", match.end())
        brace = text.code.find("{", match.end())
        if 0 <= brace < end:  # as in __shared__ struct { ... } s;
            end = text.code.find(";", text.close(brace))
        if end < 0:
            raise text.error(match.start(), "this __shared__ has no ;")
        start, head = _before_shared(text, match.start())
        at = match.end()
        in_function = depths(start)
        # `__shared__ extern` means the same as `extern __shared__`.
        extern = re.match(r"\s*extern\b", text.code[at:end])
        at += extern.end() if extern else 0
        kind = _NOT_OF_THE_TYPE.sub("", head).strip()
        if extern or re.search(r"\bextern\b", head):
            new = _rewrite_dynamic(text, start, at, end, in_function, kind)
            edits.append((start, end + 1, new))
            continue
        if not in_function:
            raise text.error(
                start, "move this __shared__ array into the kernel that uses it"
            )
        parts = split_commas(text.code, at, end)
        names = [_declared_name(text, *part) for part in parts]
        references = " ".join(
            f"[[maybe_unused]] auto &{n} = simt_{number}_arrays.{n};" for n in names
        )
        edits.append((start, at, f"struct simt_shared_{number} {{{kind}"))
        kind = f"simt_shared_{number}"
        member_names = " ".join(f"SIMT_NAMED({kind}, {name})" for name in names)
        tail = f"; }}; SIMT_SHARED(simt_{number}, {kind}, {member_names}); {references}"
        edits.append((end, end + 1, tail))
    return replace_spans(text, edits)


def _before_shared(text: ScannedText, end: int) -> tuple[int, str]:
    """Return the start of the declaration with a __shared__ at `end`, and its head."""
    line_start = max(text.code.rfind(c, 0, end) for c in "\n;{}")
    line = text.code[line_start + 1 : end].replace(BLANK, " ")
    match = _BEFORE_SHARED.search(line)
    if not match:
        return end, ""
    return line_start + 1 + match.start(), match.group()


def _rewrite_dynamic(
    text: ScannedText, start: int, at: int, end: int, in_function: bool, head: str
) -> str:
    """Return the replacement for `extern head __shared__ T name[];`."""
    raw, breaks = on_one_line(text, at, end)
    raw = f"{head} {raw}"
    match = re.fullmatch(
        r"\s*(?P<type>.*?[\s*&>])\s*(?P<name>\w+)\s*(?P<dims>\[\s*\].*?)\s*",
        ATTRIBUTE.sub(" ", raw),
    )
    if not match:
        raise text.error(start, "write it as: extern __shared__ T name[];")
    kind, name, dims = match["type"].strip(), match["name"], match["dims"]
    if not in_function:
        named = f"{name} SIMT_CALLED({name})"
        return f"static const simt::DynamicShared<{kind}> {named};{breaks}"
    return (
        f"[[maybe_unused]] {kind} (&{name}){dims} = "
        f'*({kind} (*){dims})simt::dynamic_shared("{name}", sizeof({kind}));{breaks}'
    )


def _declared_name(text: ScannedText, start: int, end: int) -> str:
    """Return the name that the declarator in [start, end) declares."""
    code = ATTRIBUTE.sub(" ", text.code[start:end].replace(BLANK, " "))
    code = re.sub(r"\b(?:struct|union|class|enum)\b.*\}", " ", code, flags=re.S)
    if "=" in code or "{" in code:
        raise text.error(start, "a __shared__ variable cannot be initialised")
    match = re.search(r"\b([A-Za-z_]\w*)\s*$", code.split("[")[0])
    if not match:
        raise text.error(start, "cannot find the name of this __shared__ variable")
    return match[1]
