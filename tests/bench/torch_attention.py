#!/usr/bin/env python3
"""Times PyTorch's own attention on the shapes of the GPU benchmark and adds it to its JSON.

    tests/bench/torch_attention.py build/gpu_bench/results.json

torch.nn.functional.scaled_dot_product_attention chooses its kernel itself (FlashAttention where it
can). K and V are laid out as ours, [batch, kv_len, heads, head_dim], and bf16; q and the result are bf16 too,
where ours are fp32. Cases of one shape that several of our steps run are measured once; a batch of
different lengths has no counterpart and is left out. Without PyTorch, or without its CUDA, one line
says so and nothing changes.
"""
import argparse
import json
import statistics
import sys


def skip(reason):
    print(f"PyTorch: skipped, {reason}")
    sys.exit(0)


def shape_key(case):
    return (case["batch"], case["num_q_heads"], case["num_kv_heads"], case["head_dim"],
            case["q_lens"][0], case["kv_lens"][0], case["causal"], case["kv_dtype"])


def comparable(case):
    """Whether PyTorch has a call that computes the same: is_causal aligns at the top left."""
    q_len, kv_len = case["q_lens"][0], case["kv_lens"][0]
    return case["uniform"] and (not case["causal"] or q_len in (1, kv_len))


def milliseconds(torch, case, repetitions, warm_ups):
    """Median of single runs, by events; the working set is that of our own kernels."""
    dtype = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[case["kv_dtype"]]
    batch, head_dim = case["batch"], case["head_dim"]
    q_len, kv_len = case["q_lens"][0], case["kv_lens"][0]

    def heads_first(length, num_heads):
        x = torch.randn(batch, length, num_heads, head_dim, device="cuda", dtype=dtype)
        return x.transpose(1, 2)

    q = heads_first(q_len, case["num_q_heads"])
    k = heads_first(kv_len, case["num_kv_heads"])
    v = heads_first(kv_len, case["num_kv_heads"])
    options = {"is_causal": case["causal"] and q_len > 1, "scale": case["scale"]}
    if case["num_q_heads"] != case["num_kv_heads"]:
        options["enable_gqa"] = True  # from PyTorch 2.5 on
    times = []
    for i in range(warm_ups + repetitions):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        end.record()
        end.synchronize()
        if i >= warm_ups:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def measure_all(torch, results, repetitions, warm_ups):
    """Adds "torch" to every case that can be compared; what failed says why."""
    measured = {}
    for case in results["cases"]:
        if "time" not in case or not comparable(case):
            continue
        key = shape_key(case)
        if key not in measured:
            try:
                measured[key] = {"median_ms": milliseconds(torch, case, repetitions, warm_ups)}
            except (RuntimeError, TypeError) as error:  # no memory, or a PyTorch without enable_gqa
                measured[key] = {"skipped": str(error).splitlines()[0]}
            torch.cuda.empty_cache()
        case["torch"] = dict(measured[key])
        if "median_ms" in case["torch"]:
            case["torch"]["our_speed"] = case["torch"]["median_ms"] / case["time"]["median_ms"]
    results["torch"] = {"version": torch.__version__, "device": torch.cuda.get_device_name(),
                        "repetitions": repetitions}


def print_table(results):
    print(f"PyTorch {results['torch']['version']}, scaled_dot_product_attention on the same shapes:")
    for case in results["cases"]:
        other = case.get("torch")
        if other is None:
            continue
        name = f"  {case['step']} {case['step_name']:<12} {case['name']:<32}"
        if "skipped" in other:
            print(f"{name} PyTorch failed: {other['skipped']}")
        else:
            print(f"{name} ours {case['time']['median_ms']:8.3f} ms   PyTorch "
                  f"{other['median_ms']:8.3f} ms   ours is {other['our_speed']:.2f} times as fast")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", help="what bench_gpu --json wrote; gets PyTorch's times")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--warm-ups", type=int, default=5)
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        skip("it is not installed")
    if not torch.cuda.is_available():
        skip("its CUDA finds no GPU")
    with open(args.json) as file:
        results = json.load(file)
    if results["emulated"]:
        skip("the figures in the file are not a GPU's")
    measure_all(torch, results, args.repetitions, args.warm_ups)
    print_table(results)
    with open(args.json, "w") as file:
        json.dump(results, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
