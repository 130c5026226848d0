"""__shared__ declarations -> members of a struct that the runtime places."""

from __future__ import annotations

import re

from ..scanner import (
    ATTRIBUTE,
    BLANK,
    Text,
    function_depths,
    on_one_line,
    replace_spans,
    split_declarators,
)

# What may stand before __shared__: `static`, which says nothing, and words that
# belong to the type.
_BEFORE_SHARED = re.compile(
    rf"(?:(?:{ATTRIBUTE.pattern}|\b[A-Za-z_]\w*(?:\s*::\s*\w+)*)\s*)+$"
)
_NOT_OF_THE_TYPE = re.compile(r"\b(?:extern|static|__device__|inline)\b")


def rewrite_shared(text: Text) -> str:
    edits = []
    depths = function_depths(text)
    for number, match in enumerate(re.finditer(r"\b__shared__\b", text.code)):
        end = text.code.find(";", match.end())
        brace = text.code.find("{", match.end())
        if 0 <= brace < end:  # __shared__ struct { ... } s;
            end = text.code.find(";", text.close(brace, "{", "}"))
        if end < 0:
            raise text.error(match.start(), "this __shared__ has no ;")
        start, before = _before_shared(text, match.start())
        after = match.end()
        inside = depths(start)
        # `__shared__ extern` is the same as `extern __shared__`.
        rest = re.match(r"\s*extern\b", text.code[after:end])
        after += rest.end() if rest else 0
        kind = _NOT_OF_THE_TYPE.sub("", before).strip()
        if rest or re.search(r"\bextern\b", before):
            new = _rewrite_dynamic(text, start, after, end, inside, kind)
            edits.append((start, end + 1, new))
            continue
        if not inside:
            raise text.error(
                start, "move this __shared__ array into the kernel that uses it"
            )
        names = [
            _declared_name(text, *part) for part in split_declarators(text, after, end)
        ]
        refs = " ".join(
            f"[[maybe_unused]] auto &{n} = simt_{number}_arrays.{n};" for n in names
        )
        edits.append((start, after, f"struct simt_shared_{number} {{{kind}"))
        kind = f"simt_shared_{number}"
        named = " ".join(f"SIMT_NAMED({kind}, {name})" for name in names)
        tail = f"; }}; SIMT_SHARED(simt_{number}, {kind}, {named}); {refs}"
        edits.append((end, end + 1, tail))
    return replace_spans(text, edits)


def _before_shared(text: Text, end: int) -> tuple[int, str]:
    """Where a declaration whose __shared__ is at `end` begins, and that part."""
    begin = max(text.code.rfind(c, 0, end) for c in "\n;{}")
    line = text.code[begin + 1 : end].replace(BLANK, " ")
    found = _BEFORE_SHARED.search(line)
    if not found:
        return end, ""
    return begin + 1 + found.start(), found.group()


def _rewrite_dynamic(
    text: Text, start: int, after: int, end: int, inside: bool, before: str
) -> str:
    """What `extern before __shared__ T name[];` becomes."""
    raw, breaks = on_one_line(text, after, end)
    raw = f"{before} {raw}"
    found = re.fullmatch(
        r"\s*(?P<type>.*?[\s*&>])\s*(?P<name>\w+)\s*(?P<dims>\[\s*\].*?)\s*",
        ATTRIBUTE.sub(" ", raw),
    )
    if not found:
        raise text.error(start, "write it as: extern __shared__ T name[];")
    kind, name, dims = found["type"].strip(), found["name"], found["dims"]
    if not inside:
        called = f"{name} SIMT_CALLED({name})"
        return f"static const simt::DynamicShared<{kind}> {called};{breaks}"
    return (
        f"[[maybe_unused]] {kind} (&{name}){dims} = "
        f'*({kind} (*){dims})simt::dynamic_shared("{name}", sizeof({kind}));{breaks}'
    )


def _declared_name(text: Text, start: int, end: int) -> str:
    """The name that the declarator in [start, end) declares."""
    code = ATTRIBUTE.sub(" ", text.code[start:end].replace(BLANK, " "))
    code = re.sub(r"\b(?:struct|union|class|enum)\b.*\}", " ", code, flags=re.S)
    if "=" in code or "{" in code:
        raise text.error(start, "a __shared__ variable cannot be initialised")
    found = re.search(r"\b([A-Za-z_]\w*)\s*$", code.split("[")[0])
    if not found:
        raise text.error(start, "cannot find the name of this __shared__ variable")
    return found[1]
