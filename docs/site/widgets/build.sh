#!/bin/sh
# build.sh HTML: compiles the parts of src/kv that pages run to WebAssembly and puts them and the
# scripts of the widgets into the folder HTML.
#
# Packages of Debian 12: clang-19 lld-19 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32
# libclang-rt-19-dev-wasm32 wasi-libc. Without a compiler that can do it, the pages keep their pictures;
# with KV_REQUIRE_WASM set that is an error.
set -eu
html=$(cd "$1" && pwd)
cd "$(dirname "$0")"

for version in 22 21 20 19 18; do
  cxx=clang++-$version
  if command -v "$cxx" >/dev/null 2>&1 && echo '#include <vector>' |
    "$cxx" --target=wasm32-wasi -stdlib=libc++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
    break
  fi
  cxx=
done
cp js/*.js "$html/"
if [ -z "$cxx" ]; then
  echo "site: no clang++ makes WebAssembly here: the pages show pictures in place of widgets" >&2
  echo 'const KV_WASM = "";' >"$html/widgets_wasm.js"
  [ -z "${KV_REQUIRE_WASM:-}" ] || exit 1
  exit 0
fi

# A page takes the bytes from a script, because a page that was opened from disk may not fetch them.
src=../../../src
wasm=$(mktemp)
trap 'rm -f "$wasm"' EXIT
"$cxx" --target=wasm32-wasi -stdlib=libc++ -std=c++20 -Oz -flto -fno-rtti -Wall -Wextra -Werror \
  -mexec-model=reactor -Wl,--strip-all -I"$src" -Icpp -o "$wasm" cpp/*.cpp \
  "$src"/kv/cost/kv_bytes.cpp "$src"/kv/cost/published.cpp "$src"/kv/cost/roofline.cpp \
  "$src"/kv/cost/cost_numbers.cpp "$src"/kv/report/json.cpp "$src"/kv/report/block_trace.cpp \
  "$src"/kv/report/numbers.cpp "$src"/kv/model/utf8.cpp "$src"/kv/cache/block_pool.cpp \
  "$src"/kv/cache/prefix_index.cpp "$src"/kv/cache/block_allocator.cpp \
  "$src"/kv/attention/reference.cpp "$src"/kv/config.cpp
{
  printf 'const KV_WASM = "'
  base64 <"$wasm" | tr -d '\n'
  printf '";\n'
} >"$html/widgets_wasm.js"
