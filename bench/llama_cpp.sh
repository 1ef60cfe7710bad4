#!/usr/bin/env bash
# llama.cpp to measure beside, from the pinned source package, under .cache/llama.cpp: its library and bench/llama_cpp.cpp, and the CPU kernels
# three times, for AVX2, for AVX-512 with VNNI, and with AMX too (avx2/bin, avx512/bin, amx/bin; the latter two go before it on the library
# path). A quarter of an hour on 2 cores, once. Usage: bench/llama_cpp.sh [JOBS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e # of the source distribution
home=.cache/llama.cpp
jobs=${1:-$(nproc)}

[[ -f $home/source.txt ]] && exit 0
mkdir -p "$home"
archive=$home/llama_cpp_python-$version.tar.gz
if ! sha256sum --check --status <<<"$sha256  $archive"; then
  [[ -x .cache/venv/bin/pip ]] || python3 -m venv .cache/venv
  echo "fetching llama.cpp's source" >&2
  .cache/venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$home" "llama-cpp-python==$version"
  sha256sum --check --quiet <<<"$sha256  $archive"
fi
tar -xzf "$archive" -C "$home"
source=$home/llama_cpp_python-$version/vendor/llama.cpp

common=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DBUILD_SHARED_LIBS=ON -DCMAKE_SKIP_RPATH=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_UI=OFF
  -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON)
avx512=(-DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON)
amx=(-DGGML_AMX_TILE=ON -DGGML_AMX_INT8=ON)

build() {
  local name=$1 targets
  read -ra targets <<<"$2"
  shift 2
  echo "building llama.cpp: $name" >&2
  cmake -S "$source" -B "$home/$name" "${common[@]}" "$@" >"$home/$name.log" 2>&1
  nice -n 10 ninja -C "$home/$name" -j "$jobs" "${targets[@]}" >>"$home/$name.log" 2>&1
}
build avx512 ggml-cpu "${avx512[@]}"
# g++ 12 drops the tile configuration that llama.cpp stores before it is loaded: its intrinsic names eight bytes of it as read.
build amx ggml-cpu "${avx512[@]}" "${amx[@]}" -DCMAKE_CXX_FLAGS="-fno-tree-dse -fno-dse"
build avx2 llama
g++ -std=c++20 -O2 -I"$source/include" -I"$source/ggml/include" bench/llama_cpp.cpp -o "$home/avx2/bin/llama_cpp" \
  -L"$home/avx2/bin" -lllama -lggml -lggml-cpu -lggml-base -Wl,-rpath-link,"$home/avx2/bin"
echo "llama-cpp-python $version (SHA-256 $sha256), g++ $(g++ -dumpfullversion), Release; avx2 with FMA, F16C, BMI2; avx512 with VBMI, VNNI, BF16; amx with TILE, INT8" \
  >"$home/source.txt"
