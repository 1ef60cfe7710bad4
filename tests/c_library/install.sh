#!/bin/sh
# install.sh CMAKE BUILD SOURCE CC: what `cmake --install` gives is enough for a C program elsewhere, found by pkg-config: it is compiled, run, and run
# again after the tree was moved. Exit code 77: no pkg-config here.
set -eu
cmake=$1 build=$2 source=$3 cc=$4
command -v pkg-config >/dev/null || { echo "no pkg-config here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/there" >/dev/null
mv "$work/there" "$work/moved"
tree=$work/moved
for file in bin/zeroulp include/zeroulp.h lib/pkgconfig/zeroulp.pc share/doc/zeroulp/LICENSE share/doc/zeroulp/examples/c/linear_s8.c; do
  [ -s "$tree/$file" ] || { echo "not installed: $file"; exit 1; }
done
[ -s "$tree/lib/libzeroulp.a" ] || [ -s "$tree/lib/libzeroulp.so" ] || { echo "no library is installed"; exit 1; }
export PKG_CONFIG_PATH="$tree/lib/pkgconfig" LD_LIBRARY_PATH="$tree/lib"
flags=$(pkg-config --cflags --libs zeroulp)
case $flags in *"$build"* | *"$source"* | *"$work/there"*) echo "zeroulp.pc names another tree: $flags"; exit 1 ;; esac
[ "$(pkg-config --modversion zeroulp)" = "$("$tree/bin/zeroulp" --version | sed 's/zeroulp //')" ] || { echo "zeroulp.pc is of another version"; exit 1; }
cd "$work"
# The command at the head of the example, with the installed copy of it: nothing of the source tree takes part.
# shellcheck disable=SC2086  # words are meant to split
"$cc" -std=c99 -Wall -Werror -ffp-contract=off "$tree/share/doc/zeroulp/examples/c/linear_s8.c" $flags -lm -o linear_s8
./linear_s8
# A kernel with a fault is refused by the same library.
sed 's/acc += (int64_t)q\[i\] \* w\[i\]/acc += (int64_t)q[i] * w[i] + (i == 7)/' "$tree/share/doc/zeroulp/examples/c/linear_s8.c" >wrong.c
cmp -s wrong.c "$tree/share/doc/zeroulp/examples/c/linear_s8.c" && { echo "the fault is not in wrong.c"; exit 1; }
# shellcheck disable=SC2086
"$cc" -std=c99 -ffp-contract=off wrong.c $flags -lm -o wrong
if ./wrong >wrong.txt; then echo "a wrong kernel passes"; exit 1; fi
# The codec, by the header alone.
cat >codec.c <<'C'
#include <string.h>
#include <stdlib.h>
#include <zeroulp.h>
int main(void) {
  unsigned char raw[4096], back[4096], *frame;
  uint64_t bound, used;
  zu_codec_options options = {ZU_BF16, ZU_LEVEL_FAST, 0, 0, 0};
  for (int i = 0; i < 4096; ++i) raw[i] = (unsigned char)(i * 7);
  if (zu_codec_bound(&options, sizeof raw, &bound) != ZU_CODEC_OK || !(frame = malloc(bound))) return 1;
  if (zu_codec_encode(&options, raw, sizeof raw, frame, bound, &used) != ZU_CODEC_OK) return 2;
  if (zu_codec_decode(frame, used, back, sizeof back) != ZU_CODEC_OK || memcmp(raw, back, sizeof raw) != 0) return 3;
  return 0;
}
C
# shellcheck disable=SC2086
"$cc" -std=c99 -Wall -Werror codec.c $flags -o codec
./codec
echo "installed, moved, compiled and run: $flags"
