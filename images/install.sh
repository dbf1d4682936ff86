#!/bin/sh
# What the stages of every Dockerfile run; the secrets and the cache are mounted for one command and are in no layer.
#
#     install.sh tools                uv, and an empty environment at /opt/shadowprice
#     install.sh dependencies EXTRA…  what these extras of pyproject.toml need, into it
#     install.sh package              the project's own code, to /opt/package
set -eu
if [ -f /run/secrets/index ]; then . /run/secrets/index; fi
export UV_LINK_MODE=copy UV_CACHE_DIR=/var/cache/uv
install() {
    /opt/tools/bin/uv pip install --no-progress --compile-bytecode --python /opt/shadowprice/bin/python "$@"
}
what=$1
shift
case $what in
tools)
    python3.11 -m venv /opt/tools
    /opt/tools/bin/pip install --quiet uv
    python3.11 -m venv --without-pip /opt/shadowprice
    ;;
dependencies)
    extras=
    for extra; do extras="$extras --extra $extra"; done
    # shellcheck disable=SC2086 # one word each
    install --constraint constraints.txt --requirement pyproject.toml $extras
    ;;
package) install --no-deps --target /opt/package . ;;
*)
    echo "install.sh: no step $what" >&2
    exit 2
    ;;
esac
