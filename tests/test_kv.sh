#!/usr/bin/env bash
# Tests of ./kv: its answers on systems that it has never seen, made of fake commands.
#
# A case runs a copy of kv with a PATH that holds the fakes and a few plain tools, so nothing is
# installed and nothing is built.
# shellcheck disable=SC2016  # bodies of fakes expand when they run; WORK is the folder below
set -u
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash_path=$(command -v bash)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
num_failed=0 num_passed=0 case_name=""

begin() {  # NAME OS_ID OS_VERSION
  case_name=$1
  rm -rf "${work:?}"/*
  mkdir -p "$work/repo/chapters/"{00_model,01_recompute,03_flash_attention} "$work/bin"
  cp "$source_dir/kv" "$work/repo/kv"
  touch "$work/repo/CMakePresets.json" "$work/repo/chapters/"{00_model,01_recompute,03_flash_attention}/main.cpp
  printf 'ID=%s\nVERSION_ID="%s"\n' "$2" "$3" >"$work/os-release"
  local tool
  for tool in bash basename cat cp cut dirname grep head mkdir chmod rm touch sed sort tail tee env uname; do
    ln -s "$(command -v $tool)" "$work/bin/$tool"
  done
  fake id 'echo 0'
  fake dpkg 'exit 0'
  fake dpkg-query 'exit 1'
  fake apt-get 'case $* in *indextargets*) echo "bookworm http://mirror.test/debian/" ;; esac'
  fake sleep 'exit 0'
}

fake() {  # NAME BODY
  rm -f "$work/bin/$1"
  printf '#!%s\n%s\n' "$bash_path" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# All tools and libraries are there; cmake leaves what a configured folder holds, and fake chapters.
everything_there() {
  fake dpkg-query 'echo "installed 9.9"'
  fake ninja 'exit 0'
  fake pkg-config 'exit 0'
  fake addr2line 'exit 0'
  fake clang++-19 'echo 19.1.7'
  fake cmake '
    echo "cmake $*" >>"$WORK/calls"
    [ "$1" = --build ] && exit 0
    mkdir -p build/default/bin
    touch build/default/build.ninja
    printf "%s\n" "CMAKE_CXX_COMPILER:STRING=$(command -v $CXX)" \
      "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/default/CMakeCache.txt
    for name in 00_model 01_recompute 03_flash_attention course_table; do
      cp "$WORK/chapter" build/default/bin/$name
    done'
  printf '#!%s\necho "${0##*/} got:$*"\n' "$bash_path" >"$work/chapter"
  chmod +x "$work/chapter"
  : >"$work/calls"
}

run_kv() {  # ARGUMENTS...; sets output and status
  output=$(cd "$work" && env -i PATH="$work/bin" WORK="$work" KV_OS_RELEASE="$work/os-release" \
    KV_TOOLKIT="$work/no-toolkit" KV_GPU_FILE="$work/no-gpu" \
    ${CXX_FOR_KV:+CXX="$CXX_FOR_KV"} bash repo/kv "$@" </dev/null 2>&1)
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
silent_on() { ! says "$1"; }
ends_with() { [ "$status" -eq "$1" ]; }

begin "alone it prints its verbs" debian 12
run_kv
check "status 0" ends_with 0
for word in "run " "test " "bench " "sass " "model NAME" "docs " "grade " "quiz " "submit " \
  "course new"; do check "lists $word" says "$word"; done

begin "what it does not know it refuses" debian 12
for words in "frobnicate" "run --bogus" "run --prompt" "run extra" "test --prompt x" "bench --fast" "bench --quick" "bench --device" \
  "bench --device tpu" "bench --device gpu --rounds 3" "sass --fast" "sass --arch" "sass sm_90" \
  "model" "model gpt9" "model smollm2 --force" "run --json x"; do
  # shellcheck disable=SC2086
  run_kv $words
  check "status 2 for: $words" ends_with 2
done
run_kv model gpt9
check "names the known models" says "smollm2"

begin "a bare Debian 12, nobody to ask" debian 12
run_kv test
check "status 2" ends_with 2
check "says to add --yes" says "--yes"
check "wants the new clang" says " clang-19"
check "takes Catch2 from backports" says "catch2/bookworm-backports"
check "adds backports from the system's mirror" says "http://mirror.test/debian bookworm-backports"
check "installs nothing" silent_on "packages: installing"
run_kv run
check "running needs no Catch2" silent_on "catch2"

begin "backports already there" debian 12
fake apt-get 'case $* in *indextargets*) echo "bookworm-backports http://mirror.test/debian/" ;; esac'
run_kv test
check "no second sources file" silent_on "sources.list.d"

for system in "debian 13" "ubuntu 24.04"; do
  # shellcheck disable=SC2086
  begin "a bare $system" $system
  run_kv test
  check "status 2" ends_with 2
  check "plain names" says "ninja-build pkg-config libeigen3-dev libfmt-dev libcli11-dev libpcre2-dev libboost-context-dev binutils catch2 clang"
done

begin "not root, no sudo" debian 13
fake id 'echo 1000'
run_kv run --yes
check "status 2" ends_with 2
check "says why" says "there is no sudo"

begin "not root, with sudo" debian 13
fake id 'echo 1000'
fake sudo 'echo "sudo $*" >>"$WORK/sudo-calls"'
run_kv run --yes
check "shows sudo in the lines" says "sudo env DEBIAN_FRONTEND=noninteractive apt-get"
check "uses it" grep -q "sudo env DEBIAN_FRONTEND=noninteractive apt-get .*cmake" "$work/sudo-calls"

begin "an archive that fails" debian 13
fake apt-get 'echo "E: the mirror is gone"; exit 100'
run_kv run --yes
check "status 1" ends_with 1
check "tries twice" says "trying again"
check "shows the log" says "E: the mirror is gone"

begin "an archive that fails once" debian 13
fake apt-get 'case $* in *install*) [ -e "$WORK/tried" ] || { touch "$WORK/tried"; exit 100; } ;; esac'
run_kv run --yes
check "tries again" says "trying again"
check "goes on" says "packages: installed"

begin "an unknown system without the tools" slackware 15
run_kv run --yes
check "status 2" ends_with 2
check "names Fedora's packages" says "dnf install"
check "names Homebrew's packages" says "brew install"
check "with Boost for the kernels" says "boost-devel binutils"
check "does not call apt" silent_on "apt-get"

begin "Ubuntu 22.04 is too old" ubuntu 22.04
run_kv run --yes
check "is treated as unknown" says "does not know how to install"

begin "everything there" debian 13
everything_there
run_kv run --prompt "two words" --tokens=3 --ignore-eos --model m.gguf
check "status 0" ends_with 0
check "skips the packages" says "packages: all there"
check "chapters get the options unchanged" says "01_recompute got:--table build/default/run.csv --prompt two words --tokens=3 --ignore-eos --model m.gguf"
check "every chapter does" says "00_model got:--table build/default/run.csv --prompt two words --tokens=3 --ignore-eos --model m.gguf"
run_kv run
check "skips configuring the second time" says "configure: up to date"
check "configured once" [ "$(grep -c -- '--preset default$' "$work/calls")" -eq 1 ]
check "no options of the user by default" says "01_recompute got:--table build/default/run.csv
"
check "ends with the table of all chapters" says "course_table got:build/default/run.csv"
fake my-compiler 'exit 0'
CXX_FOR_KV=my-compiler run_kv run
check "CXX wins and configures afresh" grep -q -- "--preset default --fresh" "$work/calls"

begin "the step of the kernels" debian 13
everything_there
run_kv run --step 3 --device checked --step=4
check "status 0" ends_with 0
check "goes to chapters with kernels" says "03_flash_attention got:--table build/default/run.csv --device checked --step 3 --step=4"
check "and to no others" says "01_recompute got:--table build/default/run.csv --device checked
"
run_kv run --step
check "needs a value" ends_with 2

begin "the code of the linear layers and attention" debian 13
everything_there
run_kv run --math fast
check "goes to every chapter" says "01_recompute got:--table build/default/run.csv --math fast"
run_kv run --math
check "needs a value" ends_with 2

begin "a chapter with a reader's own function in it" debian 13
everything_there
fake python3 'exit 0'
run_kv run
mkdir -p "$work/repo/build/default/bin/own"
cp "$work/chapter" "$work/repo/build/default/bin/own/01_attend_row"
run_kv run --own 01_attend_row --tokens 3 --prompt "two words"
check "status 0" ends_with 0
check "builds it" grep -q -- "--target own_01_attend_row" "$work/calls"
check "runs it with the options" says "01_attend_row got:--tokens 3 --prompt two words"
check "and no chapter" silent_on "00_model"
run_kv run --own
check "needs a value" ends_with 2
fake cmake '[ "$1" != --build ]'
run_kv run --own 05_fork
check "what cannot be built is named" says "no program with 05_fork"
check "status 1" ends_with 1

begin "an unknown system without Boost.Context" slackware 15
everything_there
fake dpkg-query 'exit 1'
rm "$work/bin/apt-get"
run_kv run --tokens 3
rm "$work/repo/build/default/bin/03_flash_attention"
run_kv run --tokens 3
check "status 0" ends_with 0
check "runs the chapters without kernels" says "01_recompute got:--table build/default/run.csv --tokens 3"
check "says that the others are skipped, and why" says "skipped: its kernels need Boost.Context"

begin "Boost.Context that came after the build folder" debian 13
everything_there
run_kv run
echo "Boost_DIR:PATH=Boost_DIR-NOTFOUND" >>"$work/repo/build/default/CMakeCache.txt"
run_kv run
check "configures afresh" grep -q -- "--preset default --fresh" "$work/calls"

begin "machine code without a toolkit" debian 13
everything_there
run_kv sass
check "status 2" ends_with 2
check "says what is missing" says "there is no nvcc"
check "builds nothing" silent_on "build: "

begin "machine code with a toolkit" debian 13
everything_there
fake nvcc 'exit 0'
run_kv sass --arch sm_90 --kernel tiled --json out.json --check
cp "$work/chapter" "$work/repo/build/default/bin/kernel_report"
run_kv sass --arch sm_90 --kernel tiled --json out.json --check
check "status 0" ends_with 0
check "builds them" grep -q -- "--target sass" "$work/calls"
check "passes the options on" says "kernel_report got:--arch sm_90 --kernel tiled --json out.json --check"

begin "a toolkit that came after the build folder" debian 13
everything_there
fake nvcc 'exit 0'
run_kv run
echo "KV_NVCC:FILEPATH=KV_NVCC-NOTFOUND" >>"$work/repo/build/default/CMakeCache.txt"
run_kv sass
check "configures afresh" grep -q -- "--preset default --fresh" "$work/calls"

begin "the benchmark of the CPU" debian 13
everything_there
run_kv run
for name in bench_kernels bench_decoder; do cp "$work/chapter" "$work/repo/build/default/bin/$name"; done
run_kv bench --device cpu --rounds 3
check "status 0" ends_with 0
check "is what it was" says "bench_decoder got:--rounds 3"

begin "the benchmark of a GPU" debian 13
everything_there
mkdir -p "$work/repo/tests/bench"
echo 'echo "gpu.sh got:$* seconds:$((KV_GPU_SECONDS > 0))"' >"$work/repo/tests/bench/gpu.sh"
run_kv bench --device gpu
check "status 2 without nvcc" ends_with 2
check "says so in one line" [ "$output" = "kv: there is no nvcc: install the CUDA toolkit, or name the compiler by CUDACXX" ]
fake nvcc 'exit 0'
run_kv bench --device gpu
check "status 2 without a GPU" ends_with 2
check "says so in one line" [ "$(echo "$output" | grep -c '')" -eq 1 ]
check "and what" says "there is no GPU"
fake nvidia-smi 'echo "No devices were found"; exit 6'
run_kv bench --device=gpu
check "a driver without a GPU is no GPU" ends_with 2
check "builds nothing" silent_on "build: "
fake nvidia-smi 'echo "GPU 0: NVIDIA H200"'
run_kv bench --device gpu
check "status 0 with one" ends_with 0
check "configures with CUDA" grep -q -- "--preset default -DKV_CUDA=ON" "$work/calls"
check "builds what it needs" grep -q -- "--target gpu_bench" "$work/calls"
check "runs it with a limit" says "gpu.sh got:build/default seconds:1"
run_kv bench --device gpu --quick
check "passes --quick on" says "gpu.sh got:build/default --quick"
check "configures afresh as long as the folder has no CUDA" grep -q -- "--fresh -DKV_CUDA=ON" "$work/calls"
echo "KV_CUDA:STRING=ON" >>"$work/repo/build/default/CMakeCache.txt"
run_kv bench --device gpu
check "and not after that" says "configure: up to date"
echo 'exit 1' >"$work/repo/tests/bench/gpu.sh"
run_kv bench --device gpu
check "a failure is its status" ends_with 1

begin "the site on a bare system" debian 13
run_kv docs
check "status 2" ends_with 2
check "names what it needs" says "doxygen graphviz doxygen-awesome-css libjs-katex"
check "and what makes WebAssembly" says "clang-19 lld-19 wasi-libc libc++-19-dev-wasm32"

begin "the site where WebAssembly's packages are not known" ubuntu 25.04
run_kv docs
check "names what it needs" says "doxygen graphviz doxygen-awesome-css libjs-katex"
check "and no compiler" silent_on "clang"

begin "what a CI runs, on a bare Debian" debian 12
run_kv test --full
check "opens the site in a browser and spells it" says "aspell aspell-en chromium-driver python3-selenium"
run_kv test
check "which a reader's test does not need" silent_on "chromium"

begin "what a CI runs, on a bare Ubuntu" ubuntu 24.04
run_kv test --full
check "spells the site" says "aspell aspell-en"
check "has no browser but a snap" silent_on "chromium"

begin "the site" debian 13
everything_there
fake python3 'exit 0'
mkdir -p "$work/repo/docs/site"
printf '#!%s\necho "built into $1"\n' "$bash_path" >"$work/repo/docs/site/build.sh"
chmod +x "$work/repo/docs/site/build.sh"
run_kv docs
check "status 0" ends_with 0
check "builds into the build folder" says "built into build/site"

begin "the coursework" debian 13
everything_there
mkdir -p "$work/repo/chapters/course"
touch "$work/repo/chapters/course/"{grade,quiz,submit}.py
fake python3 '[ "$1" = -c ] || echo "python3 $*"'
run_kv grade 05_fork --hints 2
check "status 0" ends_with 0
check "builds what exercises need" grep -q "target course_needs" "$work/calls"
check "passes words and options on" says "python3 chapters/course/grade.py 05_fork --hints 2"
run_kv quiz 02 --seed 3
check "a quiz needs no build" says "python3 chapters/course/quiz.py 02 --seed 3"
run_kv submit 05
check "submit passes the chapter on" says "python3 chapters/course/submit.py 05"
run_kv course new /tmp/x
check "a student's repository makes no others" ends_with 2
check "and says why" says "a student's repository has no such verb"
fake python3 'exit 1'
run_kv quiz 02
check "an old Python is refused" ends_with 2
check "with the version that is needed" says "3.11"

begin "the coursework without Python" debian 13
everything_there
run_kv grade
check "status 2" ends_with 2
check "names the package" says " python3"

begin "a chapter that fails" debian 13
everything_there
run_kv run
printf '#!%s\nexit 2\n' "$bash_path" >"$work/repo/build/default/bin/00_model"
run_kv run
check "stops there with its status" ends_with 2
check "runs no later one" silent_on "01_recompute"

begin "only clang is missing and g++ is there" debian 13
everything_there
rm "$work/bin/clang++-19"
fake g++ 'exit 0'
run_kv run
check "goes on with g++" says "configure: g++"
check "status 0" ends_with 0

begin "clang that is too old" debian 12
everything_there
rm "$work/bin/clang++-19"
fake clang++ 'echo 14.0.6'
run_kv run
check "asks for a newer one" says "missing: clang-19"

echo "$num_passed checks passed, $num_failed failed"
[ "$num_failed" -eq 0 ]
