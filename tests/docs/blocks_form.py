"""The block-table stepper on the page that is open: what a reader does, and what the reader then sees."""

import time

import widget_form

SHOWN = """
const root = document.querySelector('.widget[data-widget="blocks"]');
const ids = text => (text.match(/\\d+/g) ?? []).map(Number);
const texts = (box, selector) => [...box.querySelectorAll(selector)].map(found => found.textContent);
return {
  step: root.querySelector('.blocks-step').textContent,
  tables: [...root.querySelectorAll('tr[data-sequence]')].map(row => ({
    name: row.cells[0].textContent, length: Number(row.cells[1].textContent),
    blocks: ids(row.cells[2].textContent)})),
  before: [...root.querySelectorAll('tr[data-sequence]')].map(row => row.cells[3].textContent),
  boxes: [...root.querySelectorAll('.blocks-box')].map(box => ({
    id: texts(box, 'strong')[0], holders: texts(box, '.blocks-holders')[0],
    tokens: texts(box, '.blocks-token'), who: texts(box, '.blocks-who')[0] ?? '',
    known: texts(box, '.blocks-known')[0] ?? '', news: texts(box, '.blocks-news')[0] ?? ''})),
  free: ids(root.querySelector('[data-value="free"]').textContent),
  events: texts(root, '.blocks-events li'),
  heard: root.querySelector('.blocks-heard').textContent,
};
"""
DROP = """
const data = new DataTransfer();
data.items.add(new File([arguments[0]], 'trace.json'));
document.querySelector('.widget[data-widget="blocks"]').dispatchEvent(
  new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
"""


class BlocksForm(widget_form.Form):
    def __init__(self, browser):
        super().__init__(browser, "blocks")

    def do(self, name, *arguments):
        """enter TEXT, append SEQUENCE WORDS, fork SEQUENCE, publish SEQUENCE, end SEQUENCE."""
        if name == "enter":
            self.set(text=arguments[0])
        else:
            self.set(sequence=arguments[0])
        if name == "append":
            self.set(more=arguments[1])
        self.press(name)

    def shown(self):
        return self.browser.execute_script(SHOWN)

    def choose(self, path):
        self.field("file").send_keys(str(path))

    def drop(self, text):
        self.browser.execute_script(DROP, text)

    def waits_for(self, found):
        """Whether found() becomes true within some seconds: files are read in the background."""
        for _ in range(100):
            if found():
                return True
            time.sleep(0.1)
        return False


def line_of(name, *arguments):
    """An operation in the lines that widget_values reads."""
    text = {"enter": 0, "append": 1}.get(name)
    typed = [] if text is None else [f"blocks_type {byte}" for byte in arguments[text].encode()]
    sequence = "" if name == "enter" else f" {ord(arguments[0]) - ord('A')}"
    return [*typed, f"blocks_{name}{sequence}"]


def differs(shown, trace, at):
    """What is shown of step `at` and should not be; None when all is as it should."""
    step = trace["steps"][at]
    if shown["step"] != f"Step {at} of {len(trace['steps']) - 1}. {step['narration']}":
        return f"the step is '{shown['step']}'"
    if not shown["heard"].startswith(step["narration"]):
        return f"heard is '{shown['heard']}'"
    if shown["tables"] != [{key: table[key] for key in ("name", "length", "blocks")}
                           for table in step["tables"]]:
        return f"the tables are {shown['tables']}"
    if shown["free"] != step["free"]:
        return f"free are {shown['free']}"
    known = {entry["block"]: entry["parent"] for entry in step["known"]}
    texts = token_texts(step, trace["block_size"])
    for block, (box, count) in enumerate(zip(shown["boxes"], step["holders"], strict=True)):
        who = [table["name"] for table in step["tables"] if block in table["blocks"]]
        wanted = {
            "id": f"block {block}",
            "holders": "free" if count == 0 else f"{count} holder{'s' * (count != 1)}",
            "who": "" if count == 0 else "held by " + ", ".join(who + ["index"] * (block in known)),
            "known": "" if block not in known else "known, a beginning" if known[block] is None
            else f"known, after {known[block]}",
            "tokens": texts.get(block, [] if count == 0 else box["tokens"]),
        }
        for key, value in wanted.items():
            if box[key] != value:
                return f"block {block}: {key} is {box[key]!r} in place of {value!r}"
    return None


def token_texts(step, size):
    """The texts in each block that a table lists, as they are shown."""
    found = {}
    for table in step["tables"]:
        for i, block in enumerate(table["blocks"]):
            texts = [text.replace("\n", "↵") for text in
                     table["texts"][i * size:min((i + 1) * size, table["length"])]]
            found[block] = max(found.get(block, []), texts, key=len)
    return found
