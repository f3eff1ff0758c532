#!/usr/bin/env python3
"""Times this project's decoder next to llama.cpp's, interleaved, and writes the medians as JSON.

    tests/bench/compare_llama_cpp.py --llama-bin DIR --models DIR --out RESULT.json

--llama-bin has llama-bench and llama-batched-bench. --models has one GGUF per format, named *-F32.gguf,
*-F16.gguf, *-BF16.gguf, *-Q8_0.gguf, *-Q4_1.gguf (made by llama-quantize from one model). Each round runs
both programs one after the other on the same model, so that a slow minute of a shared machine hits both;
every ratio is the median over rounds of this project's figure divided by the better of llama.cpp's two
attention settings in that round. The KV cache is bf16 here and llama.cpp's default (f16) there: the same
bytes. With --plain the plain path is timed as well, beside the fast one. A RESULT.json that is already
there, of the same day and note, keeps what this run does not measure.
"""
import argparse
import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys

FORMATS = ["F32", "F16", "BF16", "Q8_0", "Q4_1"]


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout


def numbers(text):
    return [int(number) for number in text.split(",") if number]


def ours(args, model, math="fast"):
    """Figures of one run, and the bandwidth that it measured."""
    base = [args.bench_decoder, "--model", model, "--threads", str(args.threads), "--rounds", "1",
            "--decode", str(args.decode), "--kv-dtype", "bf16", "--math", math]
    result = json.loads(output_of(
        base + ["--prompt", str(args.prompt), "--prompt-depth", str(args.prompt_depth),
                "--naive", str(args.naive), "--depths", args.depths]))
    speeds = {f"decode@{d['depth']}": d["tokens_per_second"] for d in result["decode"]}
    if args.prompt:
        speeds[prefill_key(args)] = result["prefill"]["tokens_per_second"]
    if args.naive:
        speeds[f"recompute@{args.naive}"] = result["recompute"]["tokens_per_second"]
    if args.batches:
        rows = json.loads(output_of(
            base + ["--prompt", "0", "--depths", str(args.batch_depth), "--batch", args.batches]))
        for row in rows["decode"]:
            speeds[f"batch{row['batch']}@{args.batch_depth}"] = row["tokens_per_second"]
    return speeds, result["read_gb_per_second"]


def theirs(args, model, flash_attention):
    def bench(more):
        return json.loads(output_of(
            [os.path.join(args.llama_bin, "llama-bench"), "-m", model, "-t", str(args.threads),
             "-fa", flash_attention, "-r", "1", "-o", "json"] + more))
    speeds = {}
    if args.depths:
        for row in bench(["-p", "0", "-n", str(args.decode), "-d", args.depths]):
            speeds[f"decode@{row['n_depth']}"] = row["avg_ts"]
    if args.prompt:
        for row in bench(["-p", str(args.prompt), "-n", "0", "-d", str(args.prompt_depth)]):
            speeds[prefill_key(args)] = row["avg_ts"]
    if args.batches:
        depth = args.batch_depth
        context = max(numbers(args.batches)) * (depth + args.decode)
        lines = output_of(
            [os.path.join(args.llama_bin, "llama-batched-bench"), "-m", model,
             "-t", str(args.threads), "-fa", "on" if flash_attention == "1" else "off",
             "-npp", str(depth), "-ntg", str(args.decode), "-npl", args.batches,
             "-c", str(context), "--output-format", "jsonl"]).splitlines()
        for row in (json.loads(line) for line in lines if line.startswith("{")):
            speeds[f"batch{row['pl']}@{depth}"] = row["speed_tg"]
    return speeds


def prefill_key(args):
    return f"prefill{args.prompt}@{args.prompt_depth}"


def cpu_model():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def figures(rounds, ours_name, theirs_name):
    """Medians of what both measured, and of the ratio of each round."""
    result = {}
    for key in rounds[0][ours_name]:
        mine = [r[ours_name][key] for r in rounds]
        if key not in rounds[0][theirs_name]:
            result[key] = statistics.median(mine)
            continue
        ratios = [r[ours_name][key] / r[theirs_name][key] for r in rounds]
        result[key] = {
            ours_name: statistics.median(mine),
            theirs_name: statistics.median(r[theirs_name][key] for r in rounds),
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
        }
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-bin", required=True)
    parser.add_argument("--bench-decoder", default="build/default/bin/bench_decoder")
    parser.add_argument("--models", required=True, help="folder with one GGUF per format")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decode", type=int, default=32, help="tokens of a decode run")
    parser.add_argument("--depths", default="0", help="tokens in the cache before decoding")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--prompt-depth", type=int, default=0, help="tokens in the cache before it")
    parser.add_argument("--batches", default="", help="sequences that decode together: 1,2,4,8,16")
    parser.add_argument("--batch-depth", type=int, default=512, help="tokens of each before it")
    parser.add_argument("--naive", type=int, default=0, help="prefix that chapter 1 recomputes")
    parser.add_argument("--plain", action="store_true", help="also time the plain path")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama-version", required=True, help="its commit, for the record")
    parser.add_argument("--isa", required=True, help="instruction set of both builds, for the record")
    parser.add_argument("--note", default="", help="compilers and flags, for the record")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    results = {}
    for format_name in args.formats.split(","):
        names = [n for n in os.listdir(args.models) if n.endswith(f"-{format_name}.gguf")]
        if not names:
            sys.exit(f"{args.models}: no *-{format_name}.gguf")
        model = os.path.join(args.models, names[0])
        rounds = []
        for i in range(args.rounds):
            mine, bandwidth = ours(args, model)
            other = [theirs(args, model, fa) for fa in ("0", "1")]
            best = {key: max(o[key] for o in other) for key in other[0]}
            rounds.append({"ours": mine, "llama.cpp": best, "read_gb_per_second": bandwidth})
            if args.plain:
                rounds[-1]["plain"] = ours(args, model, "plain")[0]
            print(format_name, i + 1, json.dumps(rounds[-1]), file=sys.stderr, flush=True)
        result = figures(rounds, "ours", "llama.cpp")
        if args.plain:
            both = [{"plain": r["plain"], "fast": r["ours"]} for r in rounds]
            result["plain"] = figures(both, "plain", "fast")
        result["read_gb_per_second"] = statistics.median(r["read_gb_per_second"] for r in rounds)
        results[format_name] = result

    record = {
        "date": datetime.date.today().isoformat(),
        "machine": cpu_model(),
        "isa": args.isa,
        "threads": args.threads,
        "rounds": args.rounds,
        "llama.cpp": args.llama_version,
        "note": args.note,
        "commands": [],
        "unit": "tokens per second",
        "results": {},
    }
    if os.path.exists(args.out):
        with open(args.out) as file:
            before = json.load(file)
        if all(before.get(key) == record[key] for key in ("date", "machine", "isa", "note")):
            record = before
    paths = {args.llama_bin, args.models, args.out, args.bench_decoder, args.note}
    words = [word for word in sys.argv[1:] if word not in paths]
    record["commands"].append(shlex.join(
        ["tests/bench/compare_llama_cpp.py"] +
        [w for w in words if w not in ("--llama-bin", "--models", "--out", "--bench-decoder", "--note")]))
    for format_name, result in results.items():
        record["results"].setdefault(format_name, {}).update(result)
    with open(args.out, "w") as file:
        json.dump(record, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
