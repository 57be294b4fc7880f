#!/usr/bin/env bash
# Builds the image that Containerfile describes, without a registry, and runs it. The base is made of Debian's packages.
# BASE=IMAGE takes another one, and TAG=NAME:VERSION names the result.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' koord/__init__.py)
tag=${TAG:-koord:$version}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/koord-image
builder=(buildah --storage-driver vfs --root "$cache/storage" --runroot "$cache/run")
mkdir -p "$cache"

if [ -z "${BASE:-}" ]; then
  BASE=koord-base
  if ! "${builder[@]}" inspect --type image "$BASE" >/dev/null 2>&1; then
    [ -s "$cache/root.tar" ] || mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates \
      --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' bookworm "$cache/root.tar"
    made=$("${builder[@]}" from scratch)
    "${builder[@]}" add --quiet "$made" "$cache/root.tar" / >/dev/null
    "${builder[@]}" commit --quiet --rm "$made" "$BASE" >/dev/null
  fi
fi
"${builder[@]}" build --quiet --isolation chroot --pull-never --build-arg "BASE=$BASE" -t "$tag" . >/dev/null

# As an ordinary user, as workloads of the control plane run; and as root, as the agent does.
made=$("${builder[@]}" from --pull-never "$tag")
trap '"${builder[@]}" rm "$made" >/dev/null' EXIT
inside() { "${builder[@]}" run --isolation chroot "$@"; }
[ "$(inside "$made" -- id -u)" = 65532 ]
inside "$made" -- koord version --client
inside "$made" -- koord install --dry-run --image "$tag" >/dev/null
inside --user 0 "$made" -- koord agent --features >/dev/null
"${builder[@]}" push --quiet "$tag" "oci-archive:dist/koord-image.tar:$tag"
echo "built and ran $tag: dist/koord-image.tar"
