"""Draws which function of a pass calls which, read from the sources.

Doxygen's own graphs of calls end at the first function that a file keeps to itself, and a pass is made
of such functions.
"""

import re

# Name of a function, its file or None where the picture ends, and its page or None.
PASS = (
    ("prefill", "src/kv/generate.cpp", "kv::prefill"),
    ("decode_step", "src/kv/generate.cpp", "generate.hpp"),  # the roofline has another of that name
    ("forward", "src/kv/decoder.cpp", "kv::forward"),
    ("run_layers", "src/kv/decoder.cpp", None),
    ("dequantize_row", None, "kv::dequantize_row"),
    ("run_layer", "src/kv/decoder.cpp", None),
    ("rmsnorm", None, "kv::rmsnorm"),
    ("product", "src/kv/decoder.cpp", None),
    ("linear", None, "kv::Math::linear"),
    ("rotate", None, "kv::RopeTable::rotate"),
    ("append", None, "kv::SequenceState::append"),
    ("attention", None, "kv::Math::attention"),
    ("swiglu", None, "kv::swiglu"),
    ("commit", None, "kv::SequenceState::commit"),
    ("logits_of", "src/kv/decoder.cpp", None),
)


class CallError(Exception):
    """The picture's list and the sources disagree."""


def bodies(text, name):
    """The text between the braces of every function of that name that a file defines."""
    return re.findall(rf"^\w[^;{{}}]*?\b{name}\([^;{{]*\{{\n(.*?)^\}}", text, re.DOTALL | re.MULTILINE)


def edges(root, functions):
    """Pairs of names: the first calls the second."""
    found = []
    for name, path, _ in functions:
        if path is None:
            continue
        text = "".join(bodies((root / path).read_text(encoding="utf-8"), name))
        if not text:
            raise CallError(f"{path} does not define {name}()")
        found += [(name, other) for other, _, _ in functions
                  if other != name and re.search(rf"\b{other}\(", text)]
    unused = {name for name, path, _ in functions if path is None} - {other for _, other in found}
    if unused:
        raise CallError(f"nobody calls {', '.join(sorted(unused))}()")
    return found


def graph(root, functions=PASS):
    """The picture in the language of dot. Names with a page link to it; the others are a file's own."""
    lines = ["digraph pass {", '  rankdir="LR"; bgcolor="transparent";',
             '  node [shape=box, fontname="Liberation Sans", fontsize=10, height=0.2];']
    for name, _, page in functions:
        label = page.removeprefix("kv::") if page and page.startswith("kv::") else name
        more = f'URL="\\ref {page}"' if page else "style=dashed"
        lines.append(f'  {name} [label="{label}", {more}];')
    lines += [f"  {caller} -> {called};" for caller, called in edges(root, functions)]
    return "\n".join([*lines, "}", ""])
