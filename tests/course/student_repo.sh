#!/usr/bin/env bash
# A class from beginning to end: a student repository is written, cloned, graded empty, graded with
# every answer in it, and handed in. Part of `./kv test --full`, since it builds the course anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
course=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "student_repo: $1" >&2; exit 1; }

"$course/kv" course new "$work/class" --chapters 1-2 --seed 7 --due "the first of May" --yes
git clone --quiet "$work/class" "$work/student"
cd "$work/student"
[ -z "$(find . -name '*.gguf' -size +40M)" ] || die "a downloaded model was copied"

status=0
./kv grade --yes >empty.log || status=$?
cat empty.log
[ $status -eq 1 ] || die "an empty repository should be graded with status 1, not $status"
grep -q '^0 of [1-9][0-9]* points$' empty.log || die "starters must earn nothing"
! grep -Eq 'blocked|does not compile' empty.log || die "every starter must build and run"

# One that does not compile costs only itself.
first=$(cd chapters && ls -d 01_*/exercise/*.cpp | head -n 1)
answers=$course/build/stand_in/tests/course/generated/answer
for file in chapters/0[12]_*/exercise/*.cpp; do
  number=${file#chapters/} name=$(basename "$file")
  cp "$answers/${number%%_*}_$name" "$file"
done
cp "chapters/$first" kept.cpp
echo 'this is no C++' >>"chapters/$first"
status=0
./kv grade 01 >broken.log || status=$?
[ $status -eq 1 ] || die "an exercise that does not compile should be graded with status 1"
[ "$(grep -c 'does not compile' broken.log)" -eq 1 ] || die "one exercise should not compile"
[ "$(grep -c ' pass ' broken.log)" -ge 2 ] || die "the others should pass"
cp kept.cpp "chapters/$first"

status=0
./kv grade >full.log || status=$?
cat full.log
[ $status -eq 0 ] || die "the reference's answers should earn everything"
python3 - build/default/grade <<'PYTHON' || die "results.json or results.xml is wrong"
import json, sys, xml.etree.ElementTree as xml
results = json.load(open(sys.argv[1] + "/results.json"))
assert results["score"] == sum(test["max_score"] for test in results["tests"]) > 0
cases = list(xml.parse(sys.argv[1] + "/results.xml").iter("testcase"))
assert len(cases) == len(results["tests"]) and not any(list(case) for case in cases)
PYTHON

./kv submit 01
python3 -m zipfile -l build/submit/01.zip >listed.log
[ "$(grep -c 'chapters/01_.*/exercise/' listed.log)" -eq "$(($(wc -l <listed.log) - 1))" ] ||
  die "only the student's files are handed in"
# Everything that is not done is stood in for, so the chapters run.
git checkout --quiet chapters
./kv run --tokens 8 >run.log || die "the chapters should run in a student's repository"
tail -n 8 run.log
echo "student_repo: written, cloned, graded, handed in"
