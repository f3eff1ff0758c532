"""The block-table stepper: a reader's operations give exactly the trace that the host's program gives
for the same ones, and what is shown is that trace; files are played alike, damaged ones refused."""

import copy
import json
import pathlib
import subprocess
import tempfile

import blocks_form

QUESTION = "To be or not to be that is the question"
ASKS = "To be or not to be that is what he asks"
LONG = " ".join(f"w{i}" for i in range(30))
AT_FIRST = (("enter", QUESTION), ("enter", ASKS), ("fork", "A"))
# Each operation, the tables after it and the holders: worked out by hand, 8 blocks of 4 tokens.
STORY = (
    (("append", "A", "so"), "A 0 1 4, B 0 1 3, C 0 1 2", "4 4 1 1 1 0 0 0"),  # 2 is copied into 4
    (("append", "C", "and"), "A 0 1 4, B 0 1 3, C 0 1 2", "4 4 1 1 1 0 0 0"),  # 2 is C's alone
    (("enter", "To be or not to go that we ask"), "A 0 1 4, B 0 1 3, C 0 1 2, D 0 5 6",
     "5 4 1 1 1 2 1 0"),  # D begins like A for one block only
    (("enter", LONG), "A 0 1 4, B 0 1 3, C 0 1 2, D 0 5 6", "5 4 1 1 1 2 1 0"),  # must wait
    (("append", "D", "a b c d e f g h"), "A 0 1 4, B 0 1 3, C 0 1 2, D 0 5 6", "5 4 1 1 1 2 1 0"),
    (("end", "A"), "B 0 1 3, C 0 1 2, D 0 5 6", "4 3 1 1 0 2 1 0"),
    (("end", "B"), "C 0 1 2, D 0 5 6", "3 2 1 0 0 2 1 0"),
    (("end", "C"), "D 0 5 6", "2 1 0 0 0 2 1 0"),
    (("end", "D"), "", "1 1 0 0 0 1 0 0"),  # the prefix index alone holds 0, 1 and 5
    (("enter", LONG), "E 7 4 3 2 6 1 5 0", "1 2 2 2 2 2 2 2"),  # it gives up 1, then 5, then 0
    (("append", "E", "x y"), "E 7 4 3 2 6 1 5 0", "1 2 2 2 2 2 2 2"),  # the last block is full
    (("publish", "E"), "E 7 4 3 2 6 1 5 0", "2 2 2 2 2 2 2 2"),
    (("append", "E", "z"), "E 7 4 3 2 6 1 5 0", "2 2 2 2 2 2 2 2"),  # exhausted
    (("publish", "E"), "E 7 4 3 2 6 1 5 0", "2 2 2 2 2 2 2 2"),  # nothing that is new
)
# What the reader is told of some of them: a piece of the events.
SAID = {0: ["Copied before the write: 2 into 4.", "One holder less: 2 (now 1)."],
        1: ["No block was taken, shared or given back."],
        2: ["One more holder: 0 (now 5)."], 3: ["Exhausted"], 4: ["Exhausted"],
        5: ["Free again: 4."], 9: ["Forgotten by the prefix index to make room: 1.",
                                   "Forgotten by the prefix index to make room: 5.",
                                   "Forgotten by the prefix index to make room: 0."],
        11: ["Known to the prefix index from now on, which is one more holder: 0 (now 2)."],
        12: ["Exhausted"]}


def traces(native, operations, start="blocks_start 4 8"):
    """The program's traces: at the start and after each operation."""
    lines = [start, "blocks_trace"]
    for operation in operations:
        lines += [*blocks_form.line_of(*operation), "blocks_trace"]
    return [answer for answer in native(lines) if answer is not None]


def in_words(step):
    return ", ".join(f"{table['name']} {' '.join(map(str, table['blocks']))}"
                     for table in step["tables"])


def story_faults(form, browser, native):
    expected = traces(native, [*AT_FIRST, *(operation for operation, *_ in STORY)])
    fault = blocks_form.differs(form.shown(), expected[3], 3)
    if fault:
        yield f"at first: {fault}"
    for i, (operation, tables, holders) in enumerate(STORY):
        form.do(*operation)
        shown, trace = form.shown(), expected[4 + i]
        if browser.execute_script("return KvWidgets.call('blocks_trace')") != trace:
            yield f"{operation}: the page's trace is not the program's"
        fault = blocks_form.differs(shown, trace, 4 + i)
        if fault:
            yield f"{operation}: {fault}"
        last = trace["steps"][-1]
        if in_words(last) != tables or " ".join(map(str, last["holders"])) != holders:
            yield f"{operation}: tables {in_words(last)}, holders {last['holders']}"
        for words in SAID.get(i, []):
            if not any(words in said for said in shown["events"]):
                yield f"{operation}: '{words}' is not among {shown['events']}"
        if i == 0 and (shown["before"] != ["0 1 2", "the same", "the same"] or
                       "copy of 2" not in shown["boxes"][4]["news"] or
                       "copied to 4" not in shown["boxes"][2]["news"]):
            yield f"the copy is not seen: {shown}"
        if i == 8 and [box["tokens"] for box in shown["boxes"] if box["tokens"]] != [
                ["To", " be", " or", " not"], [" to", " be", " that", " is"],
                [" to", " go", " that", " we"]]:
            yield "what only the prefix index holds is not shown"
    yield from step_faults(form, browser, expected)


def step_faults(form, browser, expected):
    """Back and forward; and an operation goes on from the step that is shown."""
    final = len(expected) - 1
    for _ in range(final - 4):
        form.field("back").send_keys(" ")
    fault = blocks_form.differs(form.shown(), expected[final], 4)
    form.press("forward")
    fault = fault or blocks_form.differs(form.shown(), expected[final], 5)
    if fault:
        yield f"back and forward: {fault}"
    form.press("back")
    form.do(*STORY[1][0])
    if browser.execute_script("return KvWidgets.call('blocks_trace')") != expected[5]:
        yield "an operation does not go on from the step that is shown"


def refusal_faults(form, browser, native):
    """What cannot be done gives a message and leaves all as it is."""
    before = form.view()
    form.do("enter", "  ")
    if "type at least one word" not in form.message() or form.view() != before:
        yield f"no words: {form.message()}"
    form.set(block_size=0)
    form.press("start")
    if "tokens a block must be" not in form.message() or form.view() != before:
        yield f"no block size: {form.message()}"
    form.do("fork", "B")  # goes on as if nothing had been asked
    (*_, expected) = traces(native, [*AT_FIRST, STORY[0][0], STORY[1][0], ("fork", "B")])
    fault = form.message() or blocks_form.differs(form.shown(), expected, 6)
    if fault:
        yield f"after what was refused: {fault}"
    form.set(block_size=2, num_blocks=3)
    form.field("block_size").send_keys("\n")
    form.set(text="Grüße an 世界 \"<b>\"")
    form.field("text").send_keys("\n")  # as a reader does who has no mouse
    operations = [("enter", "Grüße an 世界 \"<b>\""), *[("fork", "A")] * 25]
    (*_, expected) = traces(native, operations, "blocks_start 2 3")
    for operation in operations[1:]:
        form.do(*operation)
    fault = form.message() or blocks_form.differs(form.shown(), expected, len(operations))
    if fault:
        yield f"26 sequences: {fault}"
    form.do("fork", "A")
    if "every letter" not in form.message() or blocks_form.differs(
            form.shown(), expected, len(operations)):
        yield f"one sequence more: {form.message()}"


def limit_faults(form, browser):
    """The last step that is kept, and what is said then."""
    form.press("leave")
    form.set(block_size=4, num_blocks=8)
    form.press("start")
    form.do("enter", "a")
    for count, said in ((199, ""), (1, "no more steps can be kept")):
        browser.execute_script(
            "for (let i = 0; i < arguments[1]; i++)"
            "  document.querySelector(arguments[0] + ' [name=\"publish\"]').click();",
            form.root, count)
        if said not in form.message() or (not said and form.message()) or \
                not form.shown()["step"].startswith("Step 200 of 200."):
            yield f"{form.shown()['step']}: the message is '{form.message()}'"


def file_faults(form, browser, native, folder):
    """A trace that chapter 5's program has written, and the page's own as a file."""
    own, path = form.view(), folder / "trace.json"
    subprocess.run([native.folder / "05_paged_cache", "--tokens", "2", "--block-size", "4",
                    "--trace", path], check=True, capture_output=True)
    trace = json.loads(path.read_text(encoding="utf-8"))
    last = len(trace["steps"]) - 1
    form.choose(path)
    if not form.waits_for(lambda: form.shown()["step"].startswith(f"Step 0 of {last}.")):
        yield f"the trace does not play: {form.message()}"
        return
    for at in range(last + 1):
        fault = blocks_form.differs(form.shown(), trace, at)
        if fault:
            yield f"step {at} of a file: {fault}"
        form.press("forward")  # disabled at the end
    if not form.field("enter").get_property("disabled"):
        yield "a file takes operations"
    wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        yield f"a file's trace makes the page {wide} pixels too wide"
    yield from damage_faults(form, trace, path.read_text(encoding="utf-8"))
    form.press("leave")
    if form.view() != own:
        yield "after a file the reader's own steps are not there"
    (*_, mine) = traces(native, [("enter", "Grüße an 世界 \"<b>\""), *[("fork", "A")] * 25],
                        "blocks_start 2 3")
    form.drop(json.dumps(mine))
    if not form.waits_for(lambda: form.shown()["step"].startswith("Step 0 of 26.")):
        yield f"a dropped trace does not play: {form.message()}"
    for _ in range(26):
        form.press("forward")
    if form.view() != own:
        yield "the page's own trace looks different as a file"


def damaged(trace, text):
    """Pairs of a text that is no trace and a piece of what is said of it."""
    yield "", "no JSON"
    yield text[:len(text) // 2], "its end is missing"
    yield "[1, 2]", "no trace of blocks"
    yield json.dumps({"schema": "kv-report-1"}), "no trace of blocks"
    yield text.replace("kv-block-trace-1", "kv-block-trace-2"), "reads kv-block-trace-1"
    yield " " * (17 * 2**20), "larger than 16 MiB"
    for path, value, said in (
            (("block_size",), "4", "no size"), (("num_blocks",), -1, "a number of blocks"),
            (("num_blocks",), 10**9, "a number of blocks"), (("steps",), [], "needs steps"),
            (("steps", 1), None, "step 1"), (("steps", 1, "narration"), 5, "step 1"),
            (("steps", 1, "events", 0, "kind"), "steal", "unknown kind"),
            (("steps", 1, "events", 0, "block"), 10**6, "does not exist"),
            (("steps", 1, "events", 0, "num_holders"), None, "without holders"),
            (("steps", 1, "tables"), {}, "no list 'tables'"),
            (("steps", 1, "tables", 0, "name"), ["A"], "without a name"),
            (("steps", 1, "tables", 0, "blocks", 0), 1, "different blocks"),
            (("steps", 1, "tables", 0, "length"), 10**6, "more tokens"),
            (("steps", 1, "tables", 0, "texts", 0), 7, "text for each token"),
            (("steps", 1, "holders", 0), 0, "those without holders"),
            (("steps", 1, "holders"), [1], "holders of each block"),
            (("steps", 1, "free", 0), 0, "those without holders"),
            (("steps", 1, "known", 0, "parent"), "0", "step 1 knows")):
        broken = copy.deepcopy(trace)
        place = broken
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        yield json.dumps(broken), said


def damage_faults(form, trace, text):
    before = form.view()
    for broken, said in damaged(trace, text):
        form.drop(broken)
        if not form.waits_for(lambda said=said: said in form.message()):
            yield f"'{said}' is not said of a damaged file, but '{form.message()}'"
        if form.view() != before:
            yield f"'{said}': a damaged file changes what is shown"


def faults(browser, native):
    form = blocks_form.BlocksForm(browser)
    yield from story_faults(form, browser, native)
    yield from refusal_faults(form, browser, native)
    with tempfile.TemporaryDirectory() as folder:
        yield from file_faults(form, browser, native, pathlib.Path(folder))
    yield from limit_faults(form, browser)
