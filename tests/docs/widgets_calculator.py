"""The calculator shows what kv_calculator writes, for models and formats of all kinds."""

import json
import subprocess
import tempfile

import widget_form

CASES = (  # model, cache, weights, context, sequences, tokens a block
    ("llama-3-8b", "fp16", "fp16", 8192, 8, 1),
    ("llama-3-70b", "bf16", "int8", 131072, 1, 16),
    ("gpt2-small", "int8", "fp32", 1000, 64, 16),
    ("qwen3-0.6b", "int4", "fp16", 1, 1, 256),
    ("mistral-7b", "fp8", "bf16", 32768, 256, 1),
)
SIZES = ("kv_bytes_per_token", "kv_bytes_per_sequence", "kv_bytes_total", "weight_bytes")


def program(calculator, case):
    """kv_calculator's own numbers."""
    options = [x for pair in zip(("--model", "--dtype", "--weights-dtype", "--context", "--batch",
                                  "--block-size"), map(str, case)) for x in pair]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([calculator, *options, "--no-measure", "--json", file.name], check=True,
                       capture_output=True)
        return json.load(open(file.name, encoding="utf-8"))


def choose(form, all_choices, case):
    model, dtype, weights, context, batch, block_size = case
    names = [entry["name"] for entry in all_choices["models"]]
    formats = all_choices["formats"]
    form.set(model=names.index(model), dtype=formats.index(dtype), batch=batch,
             weights_dtype=formats.index(weights), context=context, block_size=block_size)


def shown_wrongly(form, expected):
    """Pairs of what is shown and what should be."""
    wanted = {key: f"{expected[key]:,}" for key in SIZES}
    for i, device in enumerate(expected["devices"]):
        wanted[f"fit_{i}"] = f"{device['sequences_that_fit']:,}"
        wanted[f"decode_bound_{i}"] = device["decode"]["bound_by"]
        wanted[f"prefill_bound_{i}"] = device["prefill"]["bound_by"]
    return [(key, form.value(key), text) for key, text in wanted.items() if form.value(key) != text]


def faults(browser, native):
    form = widget_form.Form(browser, "calculator")
    (all_choices,) = native(["choices"])
    for case in CASES:
        choose(form, all_choices, case)
        for key, shown, wanted in shown_wrongly(form, program(native.folder / "kv_calculator", case)):
            yield f"{case}: {key} is shown as {shown}, not {wanted}"
    # As text: what the program prints for the first case.
    choose(form, all_choices, CASES[0])
    printed = subprocess.run([native.folder / "kv_calculator", "--no-measure", "--model",
                              "llama-3-8b", "--context", "8192", "--batch", "8"],
                             check=True, capture_output=True, text=True).stdout
    for key, wanted in (("decode_0", "7.045 ms"), ("intensity", "6.544"),
                        ("prefill_intensity", "47,646"), ("prefill_0", "1,136 ms")):
        if wanted not in printed or form.value(key) != wanted:
            yield f"{key}: shown {form.value(key)}; {wanted} is {'' if wanted in printed else 'not '}printed"
    # A shape of one's own: the 70B model with a KV head for each query head.
    form.set(model=len(all_choices["models"]), context=8192, batch=8, layers=80, q_heads=64,
             kv_heads=64, head_dim=128, billions=70)
    (own,) = native(["calculate_shape 80 64 64 128 70000000000 1 1 8192 8 1"])
    if own["kv_bytes_total"] != 171_798_691_840:
        yield f"the 70B model takes {own['kv_bytes_total']}"
    for key, shown, wanted in shown_wrongly(form, own):
        yield f"own shape: {key} is shown as {shown}, not {wanted}"
    before = form.value("kv_bytes_total")
    for fields, words in (({"kv_heads": 5}, "positive multiple"), ({"context": 0}, "context must"),
                          ({"batch": ""}, "batch must"), ({"batch": 10**15, "context": 10**15}, "2^63")):
        form.set(**fields)
        if words not in form.message():
            yield f"{fields}: the message is '{form.message()}'"
        form.set(kv_heads=64, context=8192, batch=8)
        if form.message() or form.value("kv_bytes_total") != before:
            yield f"behind {fields}: the message is '{form.message()}'"
