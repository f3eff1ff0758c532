#!/usr/bin/env python3
"""Times this project's decoder next to llama.cpp's, interleaved, and writes the medians as JSON.

    tests/bench/compare_llama_cpp.py --llama-bench PATH --models DIR --out RESULT.json

DIR holds one GGUF per format, named *-F32.gguf, *-F16.gguf, *-BF16.gguf, *-Q8_0.gguf, *-Q4_1.gguf (made
by llama-quantize from one model). Each round runs both programs one after the other on the same
model, so that a slow minute of a shared machine hits both; every ratio is the median over rounds of
this project's figure divided by the better of llama.cpp's two attention settings in that round.
The KV cache is bf16 here and llama.cpp's default (f16) there: the same bytes.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys

FORMATS = ["F32", "F16", "BF16", "Q8_0", "Q4_1"]


def output_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ours(args, model, prompt, depths):
    command = [args.bench_decoder, "--model", model, "--threads", str(args.threads), "--rounds", "1",
               "--prompt", str(prompt), "--decode", str(args.decode), "--kv-dtype", "bf16",
               "--depths", ",".join(map(str, depths)), "--naive", str(args.naive)]
    result = json.loads(output_of(command))
    speeds = {f"decode@{d['depth']}": d["tokens_per_second"] for d in result["decode"]}
    if prompt:
        speeds[f"prefill{prompt}"] = result["prefill"]["tokens_per_second"]
    naive = result["recompute"]["tokens_per_second"] if args.naive else None
    return speeds, naive, result["read_gb_per_second"]


def theirs(args, model, prompt, depths, flash_attention):
    def run(more):
        rows = json.loads(output_of(
            [args.llama_bench, "-m", model, "-t", str(args.threads), "-fa", flash_attention,
             "-r", "1", "-o", "json"] + more))
        return rows
    speeds = {}
    for row in run(["-p", "0", "-n", str(args.decode), "-d", ",".join(map(str, depths))]):
        speeds[f"decode@{row['n_depth']}"] = row["avg_ts"]
    if prompt:
        for row in run(["-p", str(prompt), "-n", "0"]):
            speeds[f"prefill{prompt}"] = row["avg_ts"]
    return speeds


def cpu_model():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def isa():
    with open("/proc/cpuinfo") as info:
        flags = next((line for line in info if line.startswith("flags")), "").split()
    return [flag for flag in ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni")
            if flag in flags]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--bench-decoder", default="build/default/bin/bench_decoder")
    parser.add_argument("--models", required=True, help="folder with one GGUF per format")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--depths", default="0")
    parser.add_argument("--naive", type=int, default=0, help="prefix that chapter 1 recomputes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--note", default="", help="compiler and flags, for the record")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    depths = [int(depth) for depth in args.depths.split(",")]

    results = {}
    for format_name in args.formats.split(","):
        names = [n for n in os.listdir(args.models) if n.endswith(f"-{format_name}.gguf")]
        if not names:
            sys.exit(f"{args.models}: no *-{format_name}.gguf")
        model = os.path.join(args.models, names[0])
        rounds = []
        for i in range(args.rounds):
            mine, naive, bandwidth = ours(args, model, args.prompt, depths)
            other = [theirs(args, model, args.prompt, depths, fa) for fa in ("0", "1")]
            best = {key: max(o[key] for o in other) for key in mine}
            rounds.append({"ours": mine, "llama.cpp": best, "recompute": naive,
                           "read_gb_per_second": bandwidth})
            print(format_name, i + 1, json.dumps(rounds[-1]), file=sys.stderr, flush=True)
        results[format_name] = {
            key: {
                "ours": statistics.median(r["ours"][key] for r in rounds),
                "llama.cpp": statistics.median(r["llama.cpp"][key] for r in rounds),
                "ratio": statistics.median(r["ours"][key] / r["llama.cpp"][key] for r in rounds),
                "ratio_min": min(r["ours"][key] / r["llama.cpp"][key] for r in rounds),
                "ratio_max": max(r["ours"][key] / r["llama.cpp"][key] for r in rounds),
            }
            for key in rounds[0]["ours"]
        }
        results[format_name]["read_gb_per_second"] = statistics.median(
            r["read_gb_per_second"] for r in rounds)
        if args.naive:  # chapter 1: a token after a prefix of so many
            results[format_name][f"recompute@{args.naive}"] = statistics.median(
                r["recompute"] for r in rounds)
    printed = subprocess.run([args.llama_bench, "--version"], capture_output=True, text=True)
    version = (printed.stdout + printed.stderr).strip().splitlines()
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": cpu_model(),
        "isa": isa(),
        "threads": args.threads,
        "rounds": args.rounds,
        "llama.cpp": version[0] if version else "unknown",
        "note": args.note,
        "command": "tests/bench/compare_llama_cpp.py --rounds %d --decode %d --prompt %d --depths %s"
                   % (args.rounds, args.decode, args.prompt, args.depths),
        "unit": "tokens per second",
        "results": results,
    }
    with open(args.out, "w") as file:
        json.dump(record, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
