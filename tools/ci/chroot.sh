#!/usr/bin/env bash
# Proof that a command needs nothing but what this repository installs: a fresh clone of the current commit, in a Debian 12 that
# debootstrap has just made, runs it as root without a terminal.
#
#   tools/ci/chroot.sh [--again] FOLDER COMMAND...      for example: tools/ci/chroot.sh /var/tmp/bare ./dev test
#
# FOLDER must not exist; it is left for inspection. --again goes on in a FOLDER made earlier, with the clone brought up to date.
# From this machine only what it takes to reach the package mirrors goes in: their names, proxies, certificates, pip's configuration.
# Needs root, debootstrap and git.
set -euo pipefail

fail() {
  printf 'chroot.sh: %s\n' "$1" >&2
  exit 2
}

make_system() {
  local sources mirror
  # shellcheck disable=SC2016  # the names are apt's own
  sources=$(apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) main' |
    grep -E ' bookworm(-updates|-security)? main$' | sort -u)
  mirror=$(awk '$4 == "bookworm" { print $3; exit }' <<<"$sources")
  debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || fail "debootstrap failed: $(tail -1 "$root.log")"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast" # no fsync per file in a throw-away system
  printf '%s\n' "$sources" >"$root/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https|ftp)::' >"$root/etc/apt/apt.conf.d/90host" || true
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  if [[ -f /etc/pip.conf ]]; then cp /etc/pip.conf "$root/etc/"; fi
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
  git clone --quiet --no-hardlinks "$repository" "$root/root/zeroulp"
}

again=false
if [[ ${1:-} == --again ]]; then
  again=true
  shift
fi
(($# >= 2)) || fail "usage: chroot.sh [--again] FOLDER COMMAND..."
repository=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
root=$1
shift
if $again; then
  [[ -d $root/root/zeroulp ]] || fail "$root was not made by this script"
  git -C "$root/root/zeroulp" fetch --quiet "$repository" HEAD
  git -C "$root/root/zeroulp" reset --quiet --hard FETCH_HEAD
else
  [[ ! -e $root ]] || fail "$root exists already"
  make_system
fi

network=()
for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_CERT PIP_DEFAULT_TIMEOUT; do
  if [[ -n ${!name:-} ]]; then network+=("$name=${!name}"); fi
done
echo "chroot.sh: $(git -C "$root/root/zeroulp" rev-parse --short=12 HEAD) in $root: $*"
# The mounts live in a namespace of their own and end with it, so that removing FOLDER later cannot reach through them.
# shellcheck disable=SC2016  # expanded by the inner shells
exec unshare --mount /bin/bash -c '
  set -e
  mount -t proc proc "$0/proc"
  mount --rbind /sys "$0/sys"
  mount --rbind /dev "$0/dev"
  exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true "$@"' \
  "$root" "${network[@]}" /bin/bash -c 'cd /root/zeroulp && exec "$@"' bash "$@" </dev/null
