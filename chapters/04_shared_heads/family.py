"""Trains one small model with 8, 4, 2 and 1 KV heads and measures what sharing them costs.

    python3 family.py --text tinyshakespeare.txt --convert build/default/bin/convert_heads

Everything but the number of KV heads is equal: shape, steps, windows and their order. Three kinds
of model, each with every seed:

    trained    from random weights with that many KV heads
    pooled     the trained 8 heads, mean-pooled by convert_heads: no training at all
    uptrained  pooled, then trained a little more; with 8 heads the same training without pooling,
               to tell apart what the additional steps do

The losses go to family.csv. What exists is not made again, so a run that was stopped goes on.
Equal arguments give equal files on one machine. Source: Ainslie et al. 2023 (GQA).
"""

import argparse
import concurrent.futures
import csv
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "..", "00_model", "train.py")

LAYERS, D_MODEL, NUM_Q_HEADS, HEAD_DIM, FFN_DIM, VOCAB, CONTEXT = 2, 256, 8, 32, 512, 1024, 256
KV_HEADS = (8, 4, 2, 1)
# Short runs over a text that is seen fewer than three times: there is nothing to overfit yet.
DROPOUT = 0.0
COLUMNS = [
    "kind",
    "kv_heads",
    "seed",
    "steps",
    "parameters",
    "kv_bytes_per_token_fp32",
    "held_out_loss",
]


def parse_arguments():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--text", required=True, help="training text, UTF-8")
    add("--convert", required=True, help="the program convert_heads")
    add("--folder", default="build/family-models", help="receives models, logs and losses")
    add("--csv", default=os.path.join(HERE, "family.csv"), help="receives the table")
    add("--steps", type=int, default=1200, help="of each training")
    add("--uptrain-steps", type=int, default=120, help="of each uptraining")
    add("--batch-tokens", type=int, default=1024)
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    add("--dry-run", action="store_true", help="print the commands and end")
    return parser.parse_args()


class Run:
    """One model of the family: how its file comes about."""

    def __init__(self, args, kind, kv_heads, seed):
        self.args, self.kind, self.kv_heads, self.seed = args, kind, kv_heads, seed
        self.name = f"{kind}-kv{kv_heads}-seed{seed}"

    def path(self, ending="gguf"):
        return os.path.join(self.args.folder, f"{self.name}.{ending}")

    def source(self):
        """The model that this one is made from, or None."""
        if self.kind == "trained":
            return None
        pooled = self.kind == "uptrained" and self.kv_heads < NUM_Q_HEADS
        kind, kv_heads = ("pooled", self.kv_heads) if pooled else ("trained", NUM_Q_HEADS)
        return Run(self.args, kind, kv_heads, self.seed)

    def steps(self):
        own = {"trained": self.args.steps, "pooled": 0, "uptrained": self.args.uptrain_steps}
        return own[self.kind] + (self.source().steps() if self.source() else 0)

    def command(self):
        a = self.args
        if self.kind == "pooled":
            out = ["--kv-heads", str(self.kv_heads), "--out", self.path()]
            return [a.convert, "--model", self.source().path(), *out]
        if self.kind == "trained":
            steps, data_seed = a.steps, self.seed
            shape = ["--layers", LAYERS, "--ffn-dim", FFN_DIM, "--context", CONTEXT]
            start = [*shape, "--kv-heads", self.kv_heads, "--seed", self.seed]
        else:
            steps, data_seed = a.uptrain_steps, 1000 + self.seed  # other windows than before
            start = ["--init", self.source().path()]
        # One measurement, after the last step: to choose the best of several by the held-out loss
        # would flatter whichever model was measured most often.
        rest = {
            "--out": self.path(),
            "--log": self.path("csv"),
            "--name": f"Shakespeare family, {self.kv_heads} KV heads",
            "--text": a.text,
            "--steps": steps,
            "--eval-every": steps,
            "--batch-tokens": a.batch_tokens,
            "--dropout": DROPOUT,
            "--data-seed": data_seed,
        }
        words = [sys.executable, TRAIN, *start, *(word for pair in rest.items() for word in pair)]
        return [str(word) for word in words]

    def parameters(self):
        kv_rows = self.kv_heads * HEAD_DIM
        matrices = 2 * D_MODEL * D_MODEL + 2 * kv_rows * D_MODEL + 3 * FFN_DIM * D_MODEL
        return VOCAB * D_MODEL + LAYERS * (matrices + 2 * D_MODEL) + D_MODEL

    def kv_bytes_per_token(self):
        return 2 * LAYERS * self.kv_heads * HEAD_DIM * 4

    def row(self):
        with open(self.path("loss")) as file:
            loss = file.read().split()[0]
        facts = [self.kind, self.kv_heads, self.seed, self.steps(), self.parameters()]
        return [*facts, self.kv_bytes_per_token(), loss]


def family(args):
    """Stages; what is in one needs only those before it. Seed by seed, so that a table with one
    seed is complete as early as possible."""
    trained = [Run(args, "trained", n, seed) for seed in args.seeds for n in KV_HEADS]
    pooled = [Run(args, "pooled", n, seed) for seed in args.seeds for n in KV_HEADS[1:]]
    uptrained = [Run(args, "uptrained", n, seed) for seed in args.seeds for n in KV_HEADS]
    return [trained, pooled, uptrained]


def execute(command, output):
    """Runs a command with its output in a file; one thread, so that results repeat."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with open(output, "w") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"failed, see {output}: {' '.join(command)}")


def make(run):
    """The model file and its loss, unless they exist."""
    if not os.path.exists(run.path()):
        execute(run.command(), run.path("log"))
    if not os.path.exists(run.path("loss")):
        measure = ["--text", run.args.text, "--evaluate", run.path()]
        execute([sys.executable, TRAIN, *measure], run.path("loss.part"))
        os.replace(run.path("loss.part"), run.path("loss"))
    with open(run.path("loss")) as file:
        print(f"{run.name}: {file.read().strip()}", flush=True)


def main():
    args = parse_arguments()
    stages = family(args)
    if args.dry_run:
        for run in sum(stages, []):
            print(" ".join(run.command()))
        return
    os.makedirs(args.folder, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for stage in stages:
            list(pool.map(make, stage))  # list: an error of any of them ends the run here
    with open(f"{args.csv}.part", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(run.row() for run in sum(stages, []))
    os.replace(f"{args.csv}.part", args.csv)


if __name__ == "__main__":
    main()
