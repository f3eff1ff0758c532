"""Reads a model file back and writes text with it: the greedy and the sampled continuation.

    python3 sample.py --prompt "ROMEO:" --tokens 100 --temperature 0.8

--reference FILE writes what another implementation should reproduce, as JSON: token ids, logits in
float32 from the weights as stored (F16), and greedy continuations.
"""

import argparse
import hashlib
import json
import os

import torch

import model_file
from llama import generate

REFERENCE_PROMPTS = [
    "ROMEO:",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak",
    "KING RICHARD III:\nMy lord, the night is dark and I",
    "JULIET:\nO gentle nurse, what's the hour? I'll wait\n",
]
REFERENCE_TOKENS = 40
REFERENCE_LOGITS = 16


@torch.no_grad()
def last_logits(model, ids):
    return model(torch.tensor([ids]))[0, -1]


def reference(model, bpe, text):
    ids = bpe.encode(text)
    logits = last_logits(model, ids)
    greedy = generate(model, ids, REFERENCE_TOKENS)
    # How clear each choice was: where the two largest logits nearly tie, rounding decides.
    gaps = []
    for i in range(REFERENCE_TOKENS):
        first, second = last_logits(model, ids + greedy[:i]).topk(2).values.tolist()
        gaps.append(first - second)
    return {
        "prompt": text,
        "ids": ids,
        "last_logits": logits[:REFERENCE_LOGITS].tolist(),
        "last_argmax": int(logits.argmax()),
        "last_max": logits.max().item(),
        "greedy_ids": greedy,
        "greedy_text": bpe.decode(greedy),
        "smallest_gap": min(gaps),
    }


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--model", default=os.path.join(here, "shakespeare.gguf"))
    parser.add_argument("--prompt", default="ROMEO:")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reference", metavar="FILE", help="write the JSON reference and end")
    args = parser.parse_args()

    model, bpe = model_file.load(args.model)
    if args.reference:
        with open(args.model, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        cases = [reference(model, bpe, text) for text in REFERENCE_PROMPTS]
        with open(args.reference, "w") as file:
            json.dump({"model_sha256": digest, "cases": cases}, file, indent=1)
        return

    ids = bpe.encode(args.prompt)
    new = generate(model, ids, args.tokens, args.temperature, args.seed)
    print(args.prompt + bpe.decode(new))


if __name__ == "__main__":
    main()
