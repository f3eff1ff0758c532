"""The roofline: what it shows is what kv_calculator prints, and what a slider moves moves alone."""

import re
import subprocess

from selenium.webdriver.common.keys import Keys

import widget_form

CASES = (  # model, KV heads, cache, weights, context, sequences, device
    ("llama-3-8b", 8, "fp16", "fp16", 8192, 8, "H100 SXM"),
    ("llama-3-8b", 1, "int8", "int4", 1048576, 65536, "T4"),
    ("llama-2-7b", 32, "bf16", "fp16", 1, 1, "A100 80GB"),
    ("gpt2-small", 12, "fp32", "fp32", 1024, 1, "RTX 4090"),
    ("deepseek-v3", 128, "fp8", "fp8", 65536, 64, "H200"),
    ("gpt-oss-20b", 8, "bf16", "int4", 4096, 256, "H200"),
)
STEPS = ("decode", "weights", "attention", "prefill")
# Across the picture: the marks on the roof, then the ridge.
PLACES = """
const along = mark => Number(mark.getAttribute('transform').match(/[\\d.]+/)[0]);
const root = document.querySelector(arguments[0]), places = {};
for (const name of ['decode', 'weights', 'attention', 'prefill']) {
  const marks = [...root.querySelectorAll('.roofline-mark-' + name)].map(along);
  if (marks.length !== 2 || marks[0] !== marks[1]) throw new Error('marks of ' + name + ': ' + marks);
  places[name] = marks[0];
}
places.ridge = Number(root.querySelector('.roofline-ridge').getAttribute('x1'));
return places;
"""


class Roofline(widget_form.Form):
    def __init__(self, browser, native):
        super().__init__(browser, "roofline")
        self.native = native
        (self.choices,) = native(["roofline_choices"])
        self.models = {model["name"]: model for model in self.choices["models"]}

    def choose(self, model, kv_heads, dtype, weights, context, batch, device):
        choices = self.choices
        self.set(model=list(self.models).index(model))
        self.set(kv_heads=self.models[model]["possible_kv_heads"].index(kv_heads),
                 dtype=choices["formats"].index(dtype), device=choices["devices"].index(device),
                 weights_dtype=choices["formats"].index(weights),
                 context=choices["contexts"].index(context), batch=choices["batches"].index(batch))

    def answer(self, model, kv_heads, dtype, weights, context, batch, device):
        """What the program computes of such a choice: all of it, and its device."""
        formats = self.choices["formats"]
        line = (f"roofline {list(self.models).index(model)} {kv_heads} {formats.index(dtype)} "
                f"{formats.index(weights)} {context} {batch} 100 10")
        (answer,) = self.native([line])
        return answer, answer["devices"][self.choices["devices"].index(device)]

    def texts(self, *numbers, kind=0):
        return self.native([f"number_text {number!r} {kind}" for number in numbers])

    def setting(self, name):
        return self.field(name).get_attribute("aria-valuetext")

    def places(self):
        return self.browser.execute_script(PLACES, self.root)

    def wrong(self, wanted):
        return [f"{key} is shown as {self.value(key)}, not {text}"
                for key, text in wanted.items() if self.value(key) != text]


def case_faults(form, case):
    form.choose(*case)
    answer, device = form.answer(*case)
    for name in STEPS:
        intensity, percent, tokens = form.texts(
            answer["steps"][name]["intensity"], device[name]["percent_of_peak"],
            device[name]["tokens_per_second"])
        (seconds,) = form.texts(device[name]["seconds"], kind=4)
        yield from form.wrong({
            f"{name}_intensity": intensity, f"{name}_bound": device[name]["bound_by"],
            f"{name}_time": seconds, f"{name}_percent": f"{percent} %",
            f"{name}_tokens": tokens})
        places = form.places()
        side = "memory" if places[name] <= places["ridge"] else "arithmetic"
        if side != device[name]["bound_by"]:
            yield f"{name} is drawn as bound by {side}"
    if form.message():
        yield f"the message is '{form.message()}'"


def program_faults(form, native):
    """Every device's line of kv_calculator, as it prints it."""
    printed = subprocess.run(
        [native.folder / "kv_calculator", "--no-measure", "--model", "llama-3-8b", "--context",
         "8192", "--batch", "8"], check=True, capture_output=True, text=True).stdout
    decode, prefill = re.findall(r"of cache: ([\d,.]+) FLOP a byte", printed)
    for device in form.choices["devices"]:
        form.choose(*CASES[0][:6], device)
        line = next(line for line in printed[printed.index("  roofline"):].splitlines()
                    if line.strip().startswith(device))
        rates, peak, _ridge, bound, time, tokens, prefill_bound, prefill_time = re.split(
            r"\s{2,}", line.strip())[1:]
        yield from (f"{device}: {fault}" for fault in form.wrong({
            "decode_intensity": decode, "prefill_intensity": prefill, "decode_bound": bound,
            "decode_time": time, "decode_tokens": tokens, "prefill_bound": prefill_bound,
            "prefill_time": prefill_time}))
        if (form.setting("gigabytes"), form.setting("teraflops")) != (f"{rates} GB/s",
                                                                      f"{peak} TFLOP/s"):
            yield f"{device}: rates of {form.setting('gigabytes')}, {form.setting('teraflops')}"


def movement_faults(form):
    """The batch moves decode and its weights to the right, attention not; the KV heads move it."""
    form.choose(*CASES[0])
    before = form.places()
    form.choose(*CASES[0][:5], 64, "H100 SXM")
    after = form.places()
    moved = {name for name in STEPS if after[name] > before[name]}
    still = {name for name in STEPS if after[name] == before[name]}
    if not {"decode", "weights"} <= moved or "attention" not in still:
        yield f"64 sequences in place of 8 move {sorted(moved)}"
    if form.value("weights_intensity") != "64.00" or form.value("attention_intensity") != "4.000":
        yield f"64 sequences: weights {form.value('weights_intensity')} operations a byte"
    for kv_heads, intensity in ((32, "1.000"), (1, "32.00")):
        form.choose("llama-3-8b", kv_heads, *CASES[0][2:])
        if form.value("attention_intensity") != intensity:
            yield f"{kv_heads} KV heads: attention {form.value('attention_intensity')}"


def own_device_faults(form):
    form.choose(*CASES[0])
    form.set(gigabytes=form.choices["gigabytes"].index(100))
    form.set(teraflops=form.choices["teraflops"].index(0.3))
    settings = form.setting("gigabytes"), form.setting("teraflops")
    if settings != ("100.0 GB/s", "0.300 TFLOP/s"):
        yield f"your own device: {settings}"
    # 0.3 TFLOP/s by 100 GB/s: the ridge is at 3 operations a byte, and decode does 6.5.
    yield from form.wrong({"decode_bound": "arithmetic", "attention_bound": "arithmetic"})
    if "your own" not in form.text(".roofline-now"):
        yield "your own device is not named"


def key_faults(form):
    form.choose(*CASES[0])
    form.field("batch").send_keys(Keys.ARROW_RIGHT)
    if form.setting("batch") != "16" or form.value("weights_intensity") != "16.00":
        yield f"right arrow on the sequences: {form.setting('batch')}"


def faults(browser, native):
    form = Roofline(browser, native)
    for case in CASES:
        yield from (f"{case}: {fault}" for fault in case_faults(form, case))
    yield from program_faults(form, native)
    yield from movement_faults(form)
    yield from own_device_faults(form)
    yield from key_faults(form)
