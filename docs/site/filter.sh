#!/bin/sh
# What Doxygen reads in place of the source file $1: sources.py has written it beforehand, for all
# files at once, since Doxygen asks for each several times.
exec cat "$KV_SITE_BUILD/code/${1#"$KV_SITE_SOURCE/"}"
