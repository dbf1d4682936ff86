#!/usr/bin/env bash
# A base and a builder for the images where no image can be pulled: Debian bookworm with its Python 3.11, made by
# mmdebstrap from the machine's own package sources. Kept until removed, in SHADOWPRICE_IMAGE_CACHE where that is set;
# needs mmdebstrap and buildah, and root.
#
#     images/debian.sh && make images BASE=localhost/debian-python:3.11 BUILDER=localhost/debian-python:3.11-build
set -euo pipefail
base=localhost/debian-python:3.11
builder=$base-build
for tool in mmdebstrap buildah; do
    command -v "$tool" >/dev/null || { echo "images/debian.sh: $tool is missing; apt-get install mmdebstrap buildah" >&2; exit 1; }
done
settings=$("${PYTHON:-python3.11}" "$(dirname "$0")/machine.py")
eval "$settings"
there() { buildah inspect --type image "$1" >/dev/null 2>&1; }
if ! there "$base"; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    sources=/etc/apt/sources.list.d/debian.sources
    [[ -f $sources ]] || sources=/etc/apt/sources.list
    mmdebstrap --quiet --variant=apt --include=python3.11,python3.11-venv,ca-certificates,libgomp1,wget \
        --aptopt='Apt::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        bookworm "$work/base.tar" "${DEBIAN_SOURCES:-$sources}"
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/base.tar" / >/dev/null
    buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd bash "$container"
    buildah commit --quiet "$container" "$base" >/dev/null
    buildah rm "$container" >/dev/null
fi
if ! there "$builder"; then
    # The compiler is installed inside a container: nothing of this touches the machine's own packages.
    container=$(buildah from "$base")
    buildah run --network host --volume /etc/ssl/certs:/etc/ssl/certs:ro "$container" -- sh -euc '
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends gcc libc6-dev python3.11-dev >/dev/null'
    buildah commit --quiet "$container" "$builder" >/dev/null
    buildah rm "$container" >/dev/null
fi
