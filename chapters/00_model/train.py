"""Trains the course's small Llama on one text file and writes it as GGUF.

    OPENBLAS_NUM_THREADS=1 python3 train.py --text tinyshakespeare.txt --minutes 40

--init FILE goes on from a file instead of random weights, --evaluate FILE only measures one.

Needs numpy and PyTorch, no GPU. The last tenth of the text is held out: neither the tokenizer nor
the model sees it, and the weights in the file are those with the lowest loss on it.
Equal arguments give equal weights on one machine, if the run ends by --steps and not by --minutes.
"""

import argparse
import csv
import math
import os
import time

import torch
from torch.nn import functional as F

import model_file
from bpe import Bpe
from llama import Config, Llama

WARMUP_STEPS = 100
HELD_OUT = 0.1  # fraction of the text, taken from its end
# Windows of half the context cost less per token, as attention is quadratic. They teach the words
# first; then full windows train every position up to context_len.
SHORT_WINDOWS_UNTIL = 0.5
# In one of so many windows the first token becomes <|endoftext|>, so that a prompt may start with
# it. It is never a target: the model does not end by itself.
WINDOWS_PER_BOS = 8

# The options that say what is trained; with --init or --evaluate the file says it.
SHAPE_OPTIONS = ("layers", "kv_heads", "ffn_dim", "context")


def parse_arguments():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    add = parser.add_argument
    add("--text", required=True, help="training text, UTF-8")
    add("--out", default=os.path.join(here, "shakespeare.gguf"))
    add("--log", default=os.path.join(here, "training_log.csv"))
    add("--name", default="Shakespeare 2.5M", help="general.name in the file")
    add("--layers", type=int, default=Config.num_layers)
    add("--kv-heads", type=int, default=Config.num_kv_heads)
    add("--ffn-dim", type=int, default=Config.ffn_dim)
    add("--context", type=int, default=Config.context_len, help="tokens of a window at most")
    add("--init", metavar="FILE", help="go on from this file: its weights, shape and tokenizer")
    add("--evaluate", metavar="FILE", help="print the held-out loss of this file and end")
    add("--steps", type=int, default=1_000_000, help="end after so many steps ...")
    add("--minutes", type=float, default=1e9, help="... or so much time, whichever is first")
    add("--batch-tokens", type=int, default=2048, help="tokens per step")
    add("--learning-rate", type=float, default=2e-3, help="the highest, after the warm-up")
    add("--weight-decay", type=float, default=0.1)
    add("--dropout", type=float, default=0.1)
    add("--eval-every", type=int, default=100, help="steps between held-out losses")
    add("--seed", type=int, default=1)
    add(
        "--data-seed",
        type=int,
        help="draws the windows apart from the initial weights, so that models of different shape "
        "see the same windows in the same order",
    )
    # OpenBLAS has its own count, read from OPENBLAS_NUM_THREADS before Python starts.
    add("--threads", type=int, default=1)
    args = parser.parse_args()
    endless = args.steps == parser.get_default("steps")
    if endless and args.minutes == parser.get_default("minutes") and not args.evaluate:
        parser.error("give --steps or --minutes")
    if args.init or args.evaluate:
        for option in SHAPE_OPTIONS:
            if getattr(args, option) != parser.get_default(option):
                parser.error(f"--{option.replace('_', '-')} is what the file says; leave it out")
    return args


def random_windows(tokens, num_windows, window_len):
    """Inputs and targets, each [num_windows, window_len]; a target is the next token."""
    starts = torch.randint(len(tokens) - window_len, (num_windows, 1))
    windows = tokens[starts + torch.arange(window_len + 1)]
    inputs, targets = windows[:, :-1].clone(), windows[:, 1:]
    inputs[torch.randint(WINDOWS_PER_BOS, (num_windows,)) == 0, 0] = 0
    return inputs, targets


@torch.no_grad()
def held_out_loss(model, tokens):
    """Mean loss per token in nats, over windows of context_len that follow each other."""
    model.eval()
    total = 0.0
    for start in range(0, len(tokens) - 1, model.config.context_len):
        window = tokens[start : start + model.config.context_len + 1]
        total += F.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="sum").item()
    model.train()
    return total / (len(tokens) - 1)


def make_optimizer(model, args):
    """AdamW; the norms are not decayed: their resting point is 1, not 0."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    norms = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": args.weight_decay},
        {"params": norms, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.learning_rate, betas=(0.9, 0.98))


def learning_rate(step, progress, highest):
    """Linear warm-up, then a cosine down to a fiftieth; progress runs from 0 to 1."""
    cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    return highest * min((step + 1) / WARMUP_STEPS, 1.0) * cosine


def train(model, train_tokens, held_out_tokens, args, on_best):
    """Calls on_best(step, loss) at each new lowest held-out loss and writes the log."""
    optimizer = make_optimizer(model, args)
    context_len = model.config.context_len
    start, step, lowest, losses = time.monotonic(), 0, math.inf, []

    with open(args.log, "w", newline="") as file:
        log = csv.writer(file, lineterminator="\n")
        log.writerow(["step", "train_loss", "held_out_loss", "seconds"])
        progress = 0.0
        while progress < 1.0:
            window_len = context_len // 2 if progress < SHORT_WINDOWS_UNTIL else context_len
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, progress, args.learning_rate)

            inputs, targets = random_windows(
                train_tokens, max(args.batch_tokens // window_len, 1), window_len
            )
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

            step += 1
            losses.append(loss.item())
            seconds = time.monotonic() - start
            progress = max(step / args.steps, seconds / (60 * args.minutes))
            if step % args.eval_every == 0 or progress >= 1.0:
                held_out = held_out_loss(model, held_out_tokens)
                # The train loss is the mean since the last row, with dropout on.
                train_loss = sum(losses) / len(losses)
                row = [step, f"{train_loss:.4f}", f"{held_out:.4f}", f"{seconds:.0f}"]
                log.writerow(row)
                file.flush()
                print(*row, flush=True)
                losses = []
                if held_out < lowest:
                    lowest = held_out
                    on_best(step, held_out)


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)

    with open(args.text, encoding="utf-8") as file:
        text = file.read()
    cut = round(len(text) * (1 - HELD_OUT))
    if args.init or args.evaluate:
        stored, bpe = model_file.load(args.evaluate or args.init)
        model = Llama(stored.config, args.dropout)
        model.load_state_dict(stored.state_dict())
    else:
        config = Config(
            context_len=args.context,
            num_layers=args.layers,
            num_kv_heads=args.kv_heads,
            ffn_dim=args.ffn_dim,
        )
        bpe = Bpe.train(text[:cut], config.vocab_size)
        model = Llama(config, args.dropout)
    held_out_tokens = torch.tensor(bpe.encode(text[cut:]))
    if args.evaluate:
        print(f"{held_out_loss(model, held_out_tokens):.5f} nats per held-out token")
        return
    train_tokens = torch.tensor(bpe.encode(text[:cut]))
    bytes_per_token = len(text[cut:].encode("utf-8")) / len(held_out_tokens)
    if args.data_seed is not None:
        torch.manual_seed(args.data_seed)

    num_parameters = sum(p.numel() for p in model.parameters())
    print(f"{num_parameters} parameters, {len(train_tokens)} tokens to train on,")
    print(f"{len(held_out_tokens)} held out at {bytes_per_token:.3f} bytes per token")

    def on_best(step, loss):
        model_file.save(args.out, model, bpe, args.name)
        nats = loss / bytes_per_token
        print(f"saved step {step}: {loss:.4f} nats per token,", end=" ")
        print(f"{nats:.4f} nats or {nats / math.log(2):.4f} bits per byte", flush=True)

    train(model, train_tokens, held_out_tokens, args, on_best)


if __name__ == "__main__":
    main()
