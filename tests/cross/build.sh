#!/bin/sh
# build.sh COMPILER-LEVEL SOURCE BUILD: builds the digest probe alone with another compiler and level, runs it, compares with the goldens.
# Exit code 77: this compiler is not installed.
set -eu
name=$1 source=$2 build=$3
compiler=${name%-*} level=${name##*-} launcher= toolchain=
case $compiler in
  gcc) cxx=g++ ;;
  clang) cxx=clang++ ;;
  aarch64)
    cxx=aarch64-linux-gnu-g++ launcher=qemu-aarch64
    toolchain="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64
      -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu"
    export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig
    command -v qemu-aarch64 >/dev/null || { echo "no qemu-aarch64 here (package qemu-user)"; exit 77; }
    [ -e /usr/lib/aarch64-linux-gnu/libcrypto.so ] || { echo "no OpenSSL for arm64 here (packages libssl-dev:arm64, libfmt-dev:arm64, libxxhash-dev:arm64)"; exit 77; }
    ;;
esac
command -v "$cxx" >/dev/null || { echo "no $cxx here"; exit 77; }
# shellcheck disable=SC2086  # words are meant to split
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=$cxx "-DCMAKE_CXX_FLAGS=-$level" \
  -DZEROULP_TESTS=OFF -DZEROULP_PROBE_ONLY=ON -DZEROULP_MPI=OFF $toolchain >"$build.log" 2>&1 || { tail -n 20 "$build.log"; exit 1; }
ninja -C "$build" digest_probe >>"$build.log" 2>&1 || { tail -n 30 "$build.log"; exit 1; }
# shellcheck disable=SC2086
"$(dirname "$0")/check.sh" $launcher "$build/tests/cross/digest_probe"
