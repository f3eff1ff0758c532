"""family.py of chapter 4: which runs it makes, in which order, and that it goes on where it stopped.

Nothing is trained here: a stand-in takes the place of train.py and of convert_heads.
"""

import csv
import importlib.util
import os
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the chapter is no package

CHAPTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chapters", "04_shared_heads")

# Writes the file that --out names and a line to calls.txt; --evaluate prints a loss.
STAND_IN = """#!{python}
import os, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "calls.txt"), "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if os.environ["OPENBLAS_NUM_THREADS"] != "1":
    sys.exit("more than one thread")
if "--evaluate" in words:
    print("3.25000 nats per held-out token")
elif os.path.exists(os.path.join(folder, "broken")):
    sys.exit("broken on purpose")
else:
    source = words.get("--init", words.get("--model"))
    if source and not os.path.exists(source):
        sys.exit("its source is missing: " + source)
    open(words["--out"], "w").close()
"""


def load_family():
    spec = importlib.util.spec_from_file_location("family", os.path.join(CHAPTER, "family.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FamilyTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.stand_in = os.path.join(self.folder, "stand_in.py")
        with open(self.stand_in, "w") as file:
            file.write(STAND_IN.format(python=sys.executable))
        os.chmod(self.stand_in, stat.S_IRWXU)
        self.family = load_family()
        self.family.TRAIN = self.stand_in

    def tearDown(self):
        self.temporary.cleanup()

    def main(self, *words):
        out = os.path.join(self.folder, "models")
        self.table = os.path.join(self.folder, "family.csv")
        arguments = ["--text", "text.txt", "--convert", self.stand_in, "--folder", out]
        sys.argv = ["family.py", *arguments, "--csv", self.table, *words]
        stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
        try:
            self.family.main()
        finally:
            sys.stdout.close()
            sys.stdout = stdout

    def calls(self):
        with open(os.path.join(self.folder, "calls.txt")) as file:
            return file.read().splitlines()

    def test_every_model_is_made_and_measured_once(self):
        self.main("--seeds", "1", "2", "--steps", "50", "--uptrain-steps", "5")
        with open(self.table) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 2 * (4 + 3 + 4))
        kinds = [(row["kind"], row["kv_heads"], row["seed"]) for row in rows]
        self.assertEqual(len(set(kinds)), len(kinds))
        steps = {"trained": "50", "pooled": "50", "uptrained": "55"}
        cache = {"8": "4096", "4": "2048", "2": "1024", "1": "512"}  # 2 layers, heads of 32, fp32
        for row in rows:
            self.assertEqual(row["steps"], steps[row["kind"]])
            self.assertEqual(row["kv_bytes_per_token_fp32"], cache[row["kv_heads"]])
            self.assertEqual(row["held_out_loss"], "3.25000")
        self.assertEqual(len(self.calls()), 2 * len(rows))

    def test_a_stopped_run_goes_on_and_makes_nothing_twice(self):
        broken = os.path.join(self.folder, "broken")
        open(broken, "w").close()
        with self.assertRaises(RuntimeError):
            self.main("--seeds", "1")
        self.assertFalse(os.path.exists(self.table))
        os.remove(broken)
        os.remove(os.path.join(self.folder, "calls.txt"))
        self.main("--seeds", "1")
        self.assertEqual(len(self.calls()), 2 * 11)
        self.main("--seeds", "1")
        self.assertEqual(len(self.calls()), 2 * 11)

    def test_models_of_one_seed_see_the_same_windows_for_as_many_steps(self):
        self.main("--seeds", "1", "2")
        trained = [call for call in self.calls() if "--kv-heads" in call and "--layers" in call]
        self.assertEqual(len(trained), 8)
        strip = ("--kv-heads", "--out", "--log", "--name")
        for seed in ("1", "2"):
            settings = set()
            for call in trained:
                if f"--data-seed {seed}" in call:
                    self.assertIn(f"--seed {seed} ", call)
                    options = call.split(" --")
                    settings.add(
                        tuple(o for o in options if not f"--{o}".startswith(strip))[1:]
                    )
            self.assertEqual(len(settings), 1)

    def test_a_dry_run_starts_nothing(self):
        self.main("--dry-run")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "calls.txt")))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "models")))

    def test_help_names_the_text(self):
        script = os.path.join(CHAPTER, "family.py")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--text", done.stderr)


if __name__ == "__main__":
    unittest.main()
