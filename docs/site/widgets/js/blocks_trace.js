// Reads a trace of the block allocator (src/kv/report/block_trace.hpp) from a file that may be anything.
"use strict";

const KvBlockTrace = (() => {
  const mostBytes = 16 * 2 ** 20, mostBlocks = 4096, mostSteps = 5000;
  const kinds = ["allocate", "share", "release", "free", "copy", "learn", "evict", "exhausted"];

  function need(ok, what) {
    if (!ok) throw new Error(`This file cannot be played: ${what}.`);
  }

  const isObject = value => typeof value === "object" && value !== null && !Array.isArray(value);
  const isCount = value => Number.isSafeInteger(value) && value >= 0;

  function checkEvent(event, isBlock, where) {
    need(isObject(event) && kinds.includes(event.kind), `${where} has an event of an unknown kind`);
    const isIn = [event.block, ...event.kind === "copy" ? [event.from] : []].every(isBlock);
    need(event.kind === "exhausted" || isIn, `${where} has an event of a block that does not exist`);
    need(isCount(event.num_holders), `${where} has an event without holders`);
  }

  function checkTable(table, blockSize, isBlock, where) {
    need(isObject(table) && typeof table.name === "string", `${where} has a sequence without a name`);
    const {name, length, blocks, texts} = table;
    need(Array.isArray(blocks) && blocks.every(isBlock) && new Set(blocks).size === blocks.length,
         `in ${where} the block table of ${name} is no list of different blocks`);
    need(isCount(length) && length <= blocks.length * blockSize,
         `in ${where} ${name} has more tokens than its blocks hold`);
    need(Array.isArray(texts) && texts.every(text => typeof text === "string") &&
         (texts.length === 0 || texts.length === length),
         `in ${where} ${name} has no text for each token`);
  }

  function checkStep(step, blockSize, numBlocks, where) {
    const isBlock = id => isCount(id) && id < numBlocks;
    need(isObject(step) && typeof step.narration === "string", `${where} does not say what happened`);
    for (const list of ["events", "tables", "holders", "free", "known"])
      need(Array.isArray(step[list]), `${where} has no list '${list}'`);
    need(step.holders.length === numBlocks && step.holders.every(isCount),
         `${where} does not count the holders of each block`);
    step.events.forEach(event => checkEvent(event, isBlock, where));
    step.tables.forEach(table => checkTable(table, blockSize, isBlock, where));
    const free = new Set(step.free);
    need(free.size === step.free.length && step.free.every(isBlock) &&
         step.holders.every((count, block) => (count === 0) === free.has(block)),
         `in ${where} the free blocks are not those without holders`);
    need(step.known.every(entry => isObject(entry) && isBlock(entry.block) &&
                          (entry.parent === null || isBlock(entry.parent))),
         `${where} knows a block that does not exist`);
  }

  /// The trace that the text holds. \throws Error with one sentence for a reader
  function parse(text) {
    let trace = null;
    try {
      trace = JSON.parse(text);
    } catch {
      need(false, "it is no JSON, or its end is missing");
    }
    need(isObject(trace) && typeof trace.schema === "string" &&
         trace.schema.startsWith("kv-block-trace-"), "it is no trace of blocks, as --trace writes it");
    need(trace.schema === "kv-block-trace-1",
         `it has the format ${trace.schema}, and this page reads kv-block-trace-1`);
    const {block_size, num_blocks, steps} = trace;
    need(isCount(block_size) && block_size >= 1 && block_size <= 4096, "its blocks have no size");
    need(isCount(num_blocks) && num_blocks <= mostBlocks,
         `it needs a number of blocks, at most ${mostBlocks}`);
    need(Array.isArray(steps) && steps.length > 0 && steps.length <= mostSteps,
         `it needs steps, at most ${mostSteps}`);
    steps.forEach((step, i) => checkStep(step, block_size, num_blocks, `step ${i}`));
    return trace;
  }

  /// As parse(), of a File.
  async function read(file) {
    need(file.size <= mostBytes, "it is larger than 16 MiB");
    return parse(await file.text());
  }

  return {parse, read};
})();
