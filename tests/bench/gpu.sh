#!/usr/bin/env bash
# Everything that needs a GPU, in one go: tests, compute-sanitizer, rates, PyTorch beside them.
#
#   tests/bench/gpu.sh BUILD_FOLDER [--quick]     build the target gpu_bench first
#
# `./kv bench --device gpu` builds and calls it. Each part has a limit of its own, and all parts
# together KV_GPU_SECONDS (600). Results and logs go to build/gpu_bench/. Status 1: a test failed, a
# tool found a fault, or a kernel computed something else. Parts that cannot run here say so.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

[ $# -ge 1 ] || { echo "usage: tests/bench/gpu.sh BUILD_FOLDER [--quick]" >&2; exit 2; }
build=$1
quick=${2:-}
out=build/gpu_bench
deadline=$((SECONDS + ${KV_GPU_SECONDS:-600}))
summary=() failed=no
mkdir -p "$out"
rm -f "$out"/*

note() {  # PART WORDS
  summary+=("$(printf '%-12s %s' "$1" "$2")")
  printf '%s\n' "${summary[${#summary[@]} - 1]}"
}
fail() {
  note "$@"
  failed=yes
}

# Runs a command for at most so many seconds, and not past the deadline. Status 124: stopped.
limited() {  # SECONDS COMMAND...
  local seconds=$1 left=$((deadline - SECONDS))
  shift
  [ "$left" -ge "$seconds" ] || seconds=$left
  [ "$seconds" -ge 5 ] || return 124
  timeout --kill-after=5 "$seconds" "$@"
}

run_gpu_tests() {
  local status=0
  printf '\n=== tests on the GPU ===\n'
  KV_REQUIRE_GPU=1 limited 150 ctest --test-dir "$build" -L '^gpu$' --no-tests=error \
    --output-on-failure >"$out/ctest.log" 2>&1 || status=$?
  case $status in
    0) note tests "$(grep 'tests passed' "$out/ctest.log")" ;;
    124 | 137) fail tests "stopped at the time limit; $out/ctest.log" ;;
    *)
      tail -n 30 "$out/ctest.log"
      fail tests "FAILED; $out/ctest.log" ;;
  esac
}

find_sanitizer() {
  local nvcc=${CUDACXX:-/usr/local/cuda/bin/nvcc}
  command -v compute-sanitizer && return
  [ ! -x "$(dirname "$nvcc")/compute-sanitizer" ] || echo "$(dirname "$nvcc")/compute-sanitizer"
}

# Its summary decides; without one, or where the program finds no GPU under it, it cannot run here.
run_sanitizer() {  # TOOL
  local log=$out/$1.log status=0
  KV_REQUIRE_GPU=1 limited 45 "$sanitizer" --tool "$1" --error-exitcode 86 \
    "$build/bin/test_gpu" '[sanitize]' >"$log" 2>&1 || status=$?
  if [ "$status" -eq 86 ]; then
    tail -n 30 "$log"
    fail "$1" "FAULTS; $log"
  elif [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    note "$1" "not finished within the time limit; $log"
  elif ! grep -q 'SUMMARY' "$log" || grep -q 'KV_REQUIRE_GPU is set' "$log"; then
    note "$1" "could not run here: $(grep -m 1 -i 'error' "$log" || echo "$log")"
  elif [ "$status" -eq 0 ]; then
    note "$1" "$(grep -h 'SUMMARY' "$log" | sed 's/^=* *//')"
  else
    tail -n 30 "$log"
    fail "$1" "tests FAILED under it; $log"
  fi
}

run_sanitizers() {
  local tool
  printf '\n=== compute-sanitizer ===\n'
  sanitizer=$(find_sanitizer)
  if [ -z "$sanitizer" ]; then
    note sanitizer "skipped, compute-sanitizer is not installed"
    return
  fi
  for tool in memcheck racecheck initcheck synccheck; do run_sanitizer $tool; done
}

run_rates() {
  local status=0
  printf '\n=== rates ===\n'
  limited 170 "$build/bin/bench_gpu" --json "$out/results.json" ${quick:+"$quick"} \
    >"$out/rates.txt" 2>"$out/rates.log" || status=$?
  cat "$out/rates.txt"
  case $status in
    0) note rates "$out/results.json" ;;
    124 | 137) fail rates "stopped at the time limit; $out/rates.log" ;;
    *) fail rates "FAILED: $(tail -n 1 "$out/rates.log")" ;;
  esac
}

run_torch() {
  local status=0
  printf '\n=== PyTorch on the same shapes ===\n'
  if [ ! -e "$out/results.json" ]; then
    note PyTorch "skipped, there are no rates to compare with"
  elif ! command -v python3 >/dev/null; then
    note PyTorch "skipped, python3 is not here"
  else
    limited 90 python3 tests/bench/torch_attention.py "$out/results.json" 2>&1 |
      tee "$out/torch.txt" || status=$?
    case $status in
      0) note PyTorch "$(head -n 1 "$out/torch.txt")" ;;
      124 | 137) note PyTorch "stopped at the time limit" ;;
      *) note PyTorch "failed, see $out/torch.txt" ;;
    esac
  fi
}

run_gpu_tests
run_rates
run_torch
run_sanitizers
printf '\n=== summary (%s s) ===\n' "$SECONDS"
printf '%s\n' "${summary[@]}" | tee "$out/summary.txt"
[ "$failed" = no ]
