#!/usr/bin/env python3
"""Tests of torch_attention.py with a PyTorch made of nothing: which calls it makes, what it adds."""
import contextlib
import copy
import io
import json
import os
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_attention  # noqa: E402


def case(**changes):
    base = {"name": "decode", "step": 5, "step_name": "split_kv", "kv_dtype": "BF16",
            "num_q_heads": 4, "num_kv_heads": 4, "head_dim": 64, "scale": 0.125, "causal": True,
            "batch": 2, "uniform": True, "q_lens": [1, 1], "kv_lens": [9, 9],
            "time": {"median_ms": 2.0}}
    return {**base, **changes}


class Tensor:
    def __init__(self, shape):
        self.shape = shape

    def transpose(self, i, j):
        shape = list(self.shape)
        shape[i], shape[j] = shape[j], shape[i]
        return Tensor(tuple(shape))


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 3.0


def fake_torch(calls, error=None, has_gpu=True):
    def attention(q, k, v, **options):
        calls.append((q.shape, k.shape, v.shape, options))
        if error:
            raise error

    torch = types.ModuleType("torch")
    torch.__version__ = "9.9"
    torch.bfloat16, torch.float16, torch.float32 = "bf16", "f16", "f32"
    torch.randn = lambda *shape, device, dtype: Tensor(shape)
    torch.cuda = types.SimpleNamespace(Event=Event, empty_cache=lambda: None,
                                       get_device_name=lambda: "GPU",
                                       is_available=lambda: has_gpu)
    torch.nn = types.SimpleNamespace(
        functional=types.SimpleNamespace(scaled_dot_product_attention=attention))
    return torch


class TorchAttention(unittest.TestCase):
    def measure(self, *cases, error=None):
        calls, results = [], {"cases": copy.deepcopy(list(cases))}
        torch_attention.measure_all(fake_torch(calls, error), results, 2, 1)
        return calls, results

    def test_one_call_a_run_with_the_shape(self):
        calls, results = self.measure(case())
        self.assertEqual(len(calls), 3)
        self.assertEqual(calls[0][:2], ((2, 4, 1, 64), (2, 4, 9, 64)))
        self.assertEqual(calls[0][3], {"is_causal": False, "scale": 0.125})  # one row sees all keys
        self.assertEqual(results["cases"][0]["torch"], {"median_ms": 3.0, "our_speed": 1.5})
        self.assertEqual(results["torch"]["version"], "9.9")

    def test_causal_prefill_and_groups(self):
        calls, _ = self.measure(case(q_lens=[9, 9], num_kv_heads=2))
        self.assertEqual(calls[0][1], (2, 2, 9, 64))
        self.assertEqual(calls[0][3], {"is_causal": True, "scale": 0.125, "enable_gqa": True})

    def test_steps_on_one_shape_share_a_measurement(self):
        calls, results = self.measure(case(), case(step=2, time={"median_ms": 6.0}))
        self.assertEqual(len(calls), 3)
        self.assertEqual(results["cases"][1]["torch"]["our_speed"], 0.5)

    def test_what_cannot_be_compared_is_left_alone(self):
        other_mask = case(q_lens=[4, 4])  # aligned at the other corner
        skipped = case(skipped="no memory")
        del skipped["time"]
        calls, results = self.measure(case(uniform=False), other_mask, skipped)
        self.assertEqual(calls, [])
        self.assertFalse(any("torch" in c for c in results["cases"]))

    def test_a_failure_says_why(self):
        _, results = self.measure(case(), error=RuntimeError("no memory\nand more"))
        self.assertEqual(results["cases"][0]["torch"], {"skipped": "no memory"})

    def run_main(self, torch, results):
        """What main() prints, and what the file holds afterwards."""
        with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
            json.dump(results, file)
            file.flush()
            saved = sys.modules.get("torch"), sys.argv
            sys.modules["torch"], sys.argv = torch, ["torch_attention.py", file.name]
            text = io.StringIO()
            try:
                with contextlib.redirect_stdout(text):
                    torch_attention.main()
            except SystemExit as end:
                self.assertEqual(end.code, 0)
            finally:
                sys.modules["torch"], sys.argv = saved
                if saved[0] is None:
                    del sys.modules["torch"]
            with open(file.name) as after:
                return text.getvalue(), json.load(after)

    def test_main_adds_to_the_file(self):
        text, after = self.run_main(fake_torch([]), {"emulated": False, "cases": [case()]})
        self.assertIn("ours is 1.50 times as fast", text)
        self.assertEqual(after["cases"][0]["torch"]["median_ms"], 3.0)

    def test_main_skips_visibly(self):
        measured = {"emulated": False, "cases": [case()]}
        emulated = {"emulated": True, "cases": [case()]}
        for torch, results, reason in ((None, measured, "not installed"),
                                       (fake_torch([], has_gpu=False), measured, "no GPU"),
                                       (fake_torch([]), emulated, "not a GPU's")):
            text, after = self.run_main(torch, results)
            self.assertIn("PyTorch: skipped", text)
            self.assertIn(reason, text)
            self.assertEqual(after, results)


if __name__ == "__main__":
    unittest.main()
