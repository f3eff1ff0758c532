"""The heads widget: what it shows for some head counts is what the program answers."""

import widget_form

CASES = ((32, 8, 128, 32), (8, 8, 64, 2), (12, 1, 64, 30), (64, 8, 128, 80))


def faults(browser, native):
    form = widget_form.Form(browser, "heads")
    for q_heads, kv_heads, head_dim, layers in CASES:
        form.set(q_heads=q_heads, kv_heads=kv_heads, head_dim=head_dim, layers=layers)
        (answer,) = native([f"map_heads {q_heads} {kv_heads} {head_dim} {layers}"])
        for key in ("group_size", "bytes_per_token", "bytes_per_token_unshared"):
            if form.value(key) != f"{answer[key]:,}":
                yield f"{q_heads}:{kv_heads}: {key} is shown as {form.value(key)}, not {answer[key]:,}"
        lines = form.count("line")
        if lines != q_heads:
            yield f"{q_heads}:{kv_heads}: {lines} lines"
    form.set(kv_heads=3)
    if "positive multiple" not in form.message():
        yield f"64:3: the message is '{form.message()}'"
    form.set(kv_heads="")
    if "KV heads must be a whole number" not in form.message():
        yield f"no KV heads: the message is '{form.message()}'"
    form.set(kv_heads=8)
    if form.message():
        yield f"64:8: still the message '{form.message()}'"
