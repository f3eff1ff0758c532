"""The online softmax: each step, forward and back, each split, and what no form should accept."""

import math

from selenium.webdriver.common.keys import Keys

import widget_form

INF = math.inf
CASES = (  # scores, values
    ((1, 0.5, 2, -INF, 5, 4.5), (10, 20, 30, 40, 50, 60)),  # the maximum changes twice
    ((3,), (7,)),
    ((-INF, -INF), (1, 2)),  # all masked
    ((-INF, 2, 2, -3), (1, -2, 3, 4)),
    ((10000, 9999, -10000), (1, 2, 3)),  # exp(s) has no number
    ((-10000, -10001), (1, 2)),  # exp(s) is 0
    (tuple(math.sin(j) * 20 for j in range(32)), tuple(math.cos(j) for j in range(32))),
)
REFUSED = (  # scores, values, words of the message
    ("1, x", "1, 2", "score 2 must be a number"),
    ("1, inf", "1, 2", "score 2 must be a number"),
    ("1, 2", "1", "value 2 must be a number"),
    ("1", "1, 2", "score 2 must be a number"),
    ("", "", "there must be a score"),
    ("1 " * 33, "1 " * 33, "at most 32 keys"),
)
HEIGHTS = ("return [...document.querySelectorAll(arguments[0] + ' .softmax-bar')]"
           ".map(bar => Number(bar.getAttribute('height')))")


def shown_as(shown, expected):
    """Whether a text of six digits shows a number, or a word such as -inf."""
    if isinstance(expected, str):
        return shown == expected
    try:
        return math.isclose(float(shown), expected, rel_tol=1e-5)
    except (TypeError, ValueError):
        return False


def states(native, case, split):
    lines = ["softmax_clear", *(f"softmax_add {s} {v}" for s, v in zip(*case)),
             f"softmax_states {split}"]
    return native(lines)[-1]


def two_passes(case):
    """Softmax as the textbook has it: log-sum-exp and output."""
    seen = [(s, v) for s, v in zip(*case) if s != -INF]
    if not seen:
        return "-inf", 0
    m = max(s for s, _ in seen)
    l = sum(math.exp(s - m) for s, _ in seen)
    return m + math.log(l), sum(math.exp(s - m) * v for s, v in seen) / l


def wrong(form, wanted):
    for key, expected in wanted.items():
        shown = (form.value(key) or "nothing").removeprefix("new: ")
        if not shown_as(shown, expected):
            yield f"{key} is shown as {shown}, not {expected}"


def step_faults(form, state):
    wanted = {key: state[key] for key in ("m", "l", "output", "lse")}
    if "rescale" in state:
        wanted["rescale"] = state["rescale"]
        wanted["weight"] = "masked" if state["masked"] else state["weights"][-1]
    yield from wrong(form, wanted)
    if (form.value("m") or "").startswith("new: ") != state.get("new_maximum", False):
        yield f"a new maximum is announced wrongly: {form.value('m')}"
    heights = form.browser.execute_script(HEIGHTS, form.root)
    weights = [weight for weight in state["weights"] if weight > 0]
    if len(heights) != len(weights) or not all(
            abs(height - 108 * weight) < 0.01 for height, weight in zip(heights, weights)):
        yield f"bars of {heights} for weights of {weights}"


def walk_faults(form, answer):
    """From the empty state to the end, and back through the same views."""
    views = []
    form.press("reset")
    for j, state in enumerate(answer["states"]):
        if j:
            form.press("forward")
        yield from (f"step {j}: {fault}" for fault in step_faults(form, state))
        views.append(form.view())
    form.press("forward")  # there is nothing behind the end
    if form.view() != views[-1]:
        yield "a press at the end changes the view"
    for j in reversed(range(len(views) - 1)):
        form.press("back")
        if form.view() != views[j]:
            yield f"step {j}: the way back shows something else"
    if len(set(views)) != len(views):
        yield "two steps look alike"
    form.press("end")


def end_faults(form, answer, case):
    lse, output = two_passes(case)
    for key in ("online", "two_passes"):
        yield from wrong(form, {f"{key}_lse": lse, f"{key}_output": output})
    yield from wrong(form, {f"naive_{key}": answer["naive"][key] for key in ("lse", "output")})
    if max(case[0]) == 10000 and form.value("naive_lse") != "inf":
        yield f"without a maximum the sum should overflow, but it is {form.value('naive_lse')}"


def split_faults(form, native, case):
    lse, output = two_passes(case)
    for split in range(len(case[0]) + 1):
        form.set(split=split)
        merged = states(native, case, split)["merged"]
        wanted = {f"{part}_{key}": merged[part][key] for part in "ab" for key in ("lse", "output")}
        wanted |= {"a_factor": merged["factor_a"], "b_factor": merged["factor_b"],
                   "merged_lse": lse, "merged_output": output}
        yield from (f"split at {split}: {fault}" for fault in wrong(form, wanted))


def key_faults(form):
    """Enter presses a button, an arrow moves the slider."""
    form.set(scores="1, 2", values="3, 4")
    form.press("reset")
    form.field("forward").send_keys(Keys.ENTER)
    if form.value("m") != "new: 1":
        yield f"Enter on 'One score forward': m is {form.value('m')}"
    slider = form.field("split")
    form.set(split=0)
    slider.send_keys(Keys.ARROW_RIGHT)
    if slider.get_attribute("aria-valuetext") != "1 of 2" or form.value("a_lse") != "1":
        yield f"right arrow: the split is {slider.get_attribute('aria-valuetext')}"


def faults(browser, native):
    form = widget_form.Form(browser, "softmax")
    for case in CASES:
        scores, values = (", ".join(map(str, part)) for part in case)
        form.set(scores=scores, values=values)
        answer = states(native, case, 0)
        for fault in (*walk_faults(form, answer), *end_faults(form, answer, case),
                      *split_faults(form, native, case)):
            yield f"scores {scores[:40]}: {fault}"
    for scores, values, words in REFUSED:
        form.set(scores=scores, values=values)
        if words not in form.message():
            yield f"scores '{scores[:20]}': the message is '{form.message()}', not '{words}'"
    yield from key_faults(form)
    if form.message():
        yield f"still the message '{form.message()}'"
