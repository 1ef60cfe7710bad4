#!/usr/bin/env bash
# Proof that a command needs nothing but what this repository installs: a fresh clone of the current commit, in a Debian 12 that
# debootstrap has just made, runs it as root without a terminal.
#
#   tools/ci/chroot.sh FOLDER COMMAND...      for example: tools/ci/chroot.sh /var/tmp/bare ./dev test
#
# FOLDER must not exist; it is left for inspection. From this machine only what it takes to reach the package mirrors goes in: their
# names, proxies, certificates, pip's configuration. Needs root, debootstrap and git.
set -euo pipefail

(($# >= 2)) || {
  sed -n '2,8p' "$0" >&2
  exit 2
}
repository=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
root=$1
shift
[[ ! -e $root ]] || {
  echo "chroot.sh: $root exists already" >&2
  exit 2
}

if [[ ${ZEROULP_CHROOT_PRIVATE:-} != yes ]]; then
  # Mounts below live in a namespace of their own and vanish with it, so that removing FOLDER later cannot reach through them.
  ZEROULP_CHROOT_PRIVATE=yes exec unshare --mount "$0" "$root" "$@"
fi

# shellcheck disable=SC2016  # the names are apt's own
sources=$(apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) main' |
  grep -E ' bookworm(-updates|-security)? main$' | sort -u)
mirror=$(awk '$4 == "bookworm" { print $3; exit }' <<<"$sources")
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || {
  tail -5 "$root.log" >&2
  exit 1
}

echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast" # no fsync per file in a throw-away system
printf '%s\n' "$sources" >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|ftp)::' >"$root/etc/apt/apt.conf.d/90host" || true
cp /etc/resolv.conf /etc/hosts "$root/etc/"
if [[ -f /etc/pip.conf ]]; then cp /etc/pip.conf "$root/etc/"; fi
mkdir -p "$root/usr/local/share/ca-certificates"
cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"

git clone --quiet --no-hardlinks "$repository" "$root/root/zeroulp"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"

network=()
for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_CERT PIP_DEFAULT_TIMEOUT; do
  if [[ -n ${!name:-} ]]; then network+=("$name=${!name}"); fi
done
echo "chroot.sh: $(git -C "$repository" rev-parse --short=12 HEAD) in $root: $*"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true "${network[@]}" \
  /bin/bash -c 'cd /root/zeroulp && exec "$@"' bash "$@" </dev/null
