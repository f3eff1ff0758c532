#!/bin/sh
# What Doxygen reads in place of the source file $1, line for line: the comment at the head of a file
# becomes the file's documentation, and the markers of regions are not taken for documentation.
exec awk '
  /^[ \t]*\/\/! \[.*\]$/ { print ""; next }
  NR == 1 && /^\/\/ / { head = 1; sub(/^\/\/ /, "/// \\file " FILENAME " "); print; next }
  head && /^\/\// { sub(/^\/\//, "///"); print; next }
  { head = 0; print }
' "$1"
