// The block-table stepper: a reader's own operations on the course's allocator, or a trace from a file.
//
// What the allocator is asked for is kept as a list, and each time the list is done anew from the start:
// so a step can be taken back, and nothing is lost when the compiled code ends itself.
"use strict";

KvWidgets.add("blocks", (root, call) => {
  const field = name => root.querySelector(`[name="${name}"]`);
  const heard = root.querySelector(".blocks-heard");
  let pool = [4, 8];     // block_size, num_blocks
  let operations = [];   // {name, text, sequence}: operation i leads to step i + 1
  let own = null;        // {trace, at}: the trace of the operations, and the step that is shown
  let file = null;       // the same of a file that is played
  const current = () => file ?? own;

  function replay([blockSize, numBlocks], list) {
    call("blocks_start", blockSize, numBlocks);
    for (const {name, text = "", sequence} of list) {
      for (const byte of new TextEncoder().encode(text)) call("blocks_type", byte);
      call(name, ...sequence === undefined ? [] : [sequence]);
    }
    return call("blocks_trace");
  }

  // Refused operations throw before anything is kept.
  function keep(newPool, list) {
    own = {trace: replay(newPool, list), at: list.length};
    [pool, operations] = [newPool, list];
  }

  function update(change) {
    KvWidgets.show(root, () => {
      change();
      return KvBlockView.draw(current().trace, current().at);
    });
    const {trace, at} = current(), step = trace.steps[at];
    const said = [step.narration, ...KvBlockView.sentences(step)].join(" ");
    if (heard.textContent !== said) heard.textContent = said;
    refresh(step.tables.map(table => table.name), at, trace.steps.length - 1);
  }

  function refresh(names, at, last) {
    const focused = document.activeElement, chosen = field("sequence").value;
    field("sequence").replaceChildren(
      ...names.map(name => KvWidgets.element("option", {value: name}, name)));
    field("sequence").value = names.includes(chosen) ? chosen : names[0] ?? "";
    for (const name of ["enter", "start"]) field(name).disabled = file !== null;
    for (const name of ["sequence", "append", "fork", "publish", "end"])
      field(name).disabled = file !== null || names.length === 0;
    field("leave").disabled = file === null;
    field("back").disabled = at === 0;
    field("forward").disabled = at === last;
    // A button that is no longer there to be pressed hands the keyboard on.
    const next = {back: "forward", forward: "back"};
    if (root.contains(focused) && focused.disabled) field(next[focused.name] ?? "text").focus();
  }

  // An operation goes on from the step that is shown.
  function operate(name, text, sequence) {
    update(() => keep(pool, [...operations.slice(0, own.at), {name, text, sequence}]));
  }
  const chosen = () => field("sequence").value.charCodeAt(0) - "A".charCodeAt(0);

  async function play(given) {
    try {
      const trace = await KvBlockTrace.read(given);
      update(() => { file = {trace, at: 0}; });
    } catch (error) {
      update(() => { throw error; });
    }
  }

  const submit = (button, action) => field(button).form.addEventListener("submit", () => {
    if (!field(button).disabled) action();
  });
  const press = (name, action) => field(name).addEventListener("click", action);
  submit("enter", () => operate("blocks_enter", field("text").value));
  submit("append", () => operate("blocks_append", field("more").value, chosen()));
  submit("start", () => {
    const {block_size, num_blocks} = KvWidgets.numbers(field("start").form);
    update(() => keep([block_size, num_blocks], []));
  });
  for (const name of ["fork", "publish", "end"])
    press(name, () => operate(`blocks_${name}`, "", chosen()));
  press("back", () => update(() => current().at--));
  press("forward", () => update(() => current().at++));
  press("leave", () => update(() => { file = null; }));

  field("prompt").addEventListener("change", () => { field("text").value = field("prompt").value; });
  field("file").addEventListener("change", () => {
    if (field("file").files.length) play(field("file").files[0]);
    field("file").value = "";  // so that the same file can be chosen again
  });
  const holdsFile = event => event.dataTransfer.types.includes("Files");
  root.addEventListener("dragover", event => { if (holdsFile(event)) event.preventDefault(); });
  root.addEventListener("drop", event => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    play(event.dataTransfer.files[0]);
  });

  // At first: two prompts that begin alike, and a fork.
  const [first, second] = field("prompt").options;
  update(() => keep(pool, [{name: "blocks_enter", text: first.value},
                           {name: "blocks_enter", text: second.value},
                           {name: "blocks_fork", sequence: 0}]));
});
