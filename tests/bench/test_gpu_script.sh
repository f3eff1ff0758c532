#!/usr/bin/env bash
# Tests of gpu.sh on a GPU machine made of fake commands: what it says, and with which status.
# shellcheck disable=SC2016  # bodies of fakes expand when they run
set -u
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bash_path=$(command -v bash)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
num_failed=0 num_passed=0 case_name=""

fake() {  # NAME BODY
  rm -f "$work/bin/$1"
  printf '#!%s\n%s\n' "$bash_path" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# A machine where all is well.
begin() {  # NAME
  case_name=$1
  rm -rf "${work:?}"/*
  mkdir -p "$work/repo/tests/bench" "$work/repo/b/bin" "$work/bin"
  cp "$source_dir/gpu.sh" "$work/repo/tests/bench/"
  local tool
  for tool in bash cat dirname grep head mkdir rm sed sleep tail tee timeout; do
    ln -s "$(command -v $tool)" "$work/bin/$tool"
  done
  fake ctest 'echo "ctest $* require:$KV_REQUIRE_GPU"; echo "100% tests passed, 0 tests failed out of 9"'
  fake python3 'echo "PyTorch 9: $*"'
  fake compute-sanitizer 'echo "$*"; echo "========= ERROR SUMMARY: 0 errors"'
  fake bench_gpu 'echo "rates $*"; : >"$2"'
  mv "$work/bin/bench_gpu" "$work/repo/b/bin/"
}

run_script() {  # ARGUMENTS...
  output=$(env -i PATH="$work/bin" KV_GPU_SECONDS="${LIMIT:-60}" CUDACXX="$work/no-nvcc" \
    bash "$work/repo/tests/bench/gpu.sh" "$@" 2>&1)
  status=$?
}

check() {  # WHAT TEST...
  local what=$1
  shift
  if "$@"; then
    num_passed=$((num_passed + 1))
    return
  fi
  num_failed=$((num_failed + 1))
  printf 'FAILED: %s: %s\n  status %s, output:\n%s\n' "$case_name" "$what" "$status" "$output" |
    sed '2,$s/^/  /'
}
says() { [[ $output == *"$1"* ]]; }
ends_with() { [ "$status" -eq "$1" ]; }

begin "all is well"
run_script b --quick
check "status 0" ends_with 0
check "tests with the label gpu, and none may skip" grep -q -- '-L ^gpu$ .*require:1' "$work/repo/build/gpu_bench/ctest.log"
check "rates as JSON" says "rates --json build/gpu_bench/results.json --quick"
check "PyTorch gets the JSON" says "PyTorch 9: tests/bench/torch_attention.py build/gpu_bench/results.json"
for tool in memcheck racecheck initcheck synccheck; do
  check "$tool ran" grep -q -- "--tool $tool .*test_gpu \[sanitize\]" "$work/repo/build/gpu_bench/$tool.log"
done
check "a summary" says "=== summary"
check "which it keeps" grep -q "^memcheck .*0 errors" "$work/repo/build/gpu_bench/summary.txt"

begin "a test fails"
fake ctest 'echo "the failed test"; exit 8'
run_script b
check "status 1" ends_with 1
check "shows it" says "the failed test"
check "goes on with the rates" says "rates --json"

begin "a tool finds a fault"
fake compute-sanitizer 'echo "========= ERROR SUMMARY: 1 error"; [ "$2" != racecheck ] || exit 86'
run_script b
check "status 1" ends_with 1
check "names the tool" says "racecheck    FAULTS"

begin "no compute-sanitizer"
rm "$work/bin/compute-sanitizer"
run_script b
check "status 0" ends_with 0
check "says so" says "skipped, compute-sanitizer is not installed"

begin "compute-sanitizer cannot run on this machine"
fake compute-sanitizer 'echo "========= Error: Device not supported"; exit 1'
run_script b
check "status 0" ends_with 0
check "says so" says "memcheck     could not run here: ========= Error: Device not supported"

begin "a test fails only under a tool"
fake compute-sanitizer 'echo "========= ERROR SUMMARY: 0 errors"; exit 42'
run_script b
check "status 1" ends_with 1
check "says so" says "tests FAILED under it"

begin "a kernel computes something else"
printf '#!%s\necho "WRONG: tiled"; echo "bench_gpu: worth nothing" >&2; exit 1\n' "$bash_path" >"$work/repo/b/bin/bench_gpu"
run_script b
check "status 1" ends_with 1
check "says why" says "FAILED: bench_gpu: worth nothing"
check "leaves PyTorch out" says "PyTorch      skipped, there are no rates"

begin "time runs out"
fake ctest 'sleep 60'
LIMIT=6 run_script b
check "status 1" ends_with 1
check "says so" says "tests        stopped at the time limit"
check "the rest too" says "rates        stopped at the time limit"

begin "no folder"
run_script
check "status 2" ends_with 2

echo "$num_passed checks passed, $num_failed failed"
[ "$num_failed" -eq 0 ]
