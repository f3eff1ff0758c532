#!/bin/sh
# build.sh BUILD_DIR: builds the site and ends with the path of its first page.
#
# Needs Doxygen, Graphviz, Python 3.11 and two packages of web assets, copied into the site so that
# it opens from disk and asks nothing of the network. Elsewhere than on Debian and Ubuntu,
# KV_AWESOME and KV_KATEX name their folders.
set -eu
cd "$(dirname "$0")/../.."
[ $# -eq 1 ] || { echo "usage: docs/site/build.sh BUILD_DIR" >&2; exit 2; }

KV_AWESOME=${KV_AWESOME:-/usr/share/doxygen-awesome-css}
KV_KATEX=${KV_KATEX:-/usr/share/javascript/katex}
need() {  # TEST WHAT PACKAGE
  eval "$1" >/dev/null 2>&1 || { echo "site: $2 is missing: apt-get install $3" >&2; exit 2; }
}
need "command -v doxygen" Doxygen doxygen
need "command -v dot" Graphviz graphviz
need "command -v python3" "Python 3" python3
need '[ -e "$KV_AWESOME/doxygen-awesome.css" ]' "the theme" doxygen-awesome-css
need '[ -e "$KV_KATEX/katex.js" ]' KaTeX libjs-katex

mkdir -p "$1"
KV_SITE_BUILD=$(cd "$1" && pwd)
KV_SITE_SOURCE=$(pwd)
export KV_AWESOME KV_SITE_BUILD KV_SITE_SOURCE
rm -rf "$KV_SITE_BUILD/html" "$KV_SITE_BUILD/files"

python3 -B docs/site/settings.py "$KV_SITE_BUILD"
python3 -B docs/site/generate.py "$KV_SITE_BUILD"
doxygen "$KV_SITE_BUILD/Doxyfile"

html=$KV_SITE_BUILD/html
mkdir -p "$html/katex/fonts"
cp "$KV_KATEX/katex.js" "$KV_KATEX/katex.css" "$KV_KATEX/contrib/auto-render.js" "$html/katex/"
cp "$KV_KATEX"/fonts/*.woff2 "$html/katex/fonts/"
cp -R "$KV_SITE_BUILD/files" "$html/"
docs/site/widgets/build.sh "$html"
python3 -B docs/site/finish.py "$html"
python3 -B docs/site/text_index.py "$html"
echo "$html/index.html"
