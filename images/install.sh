#!/bin/sh
# What the stages of every Dockerfile run; the secrets and the cache are mounted for one command and are in no layer.
#
#     install.sh dependencies EXTRA…  what these extras of pyproject.toml need, into an environment at /opt/shadowprice
#     install.sh package              the project's own code, to /opt/package
#     install.sh inventory            a list of all that is installed (CycloneDX), to /opt/shadowprice/sbom.cdx.json
#
# Every file that is fetched must have a hash of requirements.lock or tools.lock; `make lock` writes both.
set -eu
if [ -f /run/secrets/index ]; then . /run/secrets/index; fi
export UV_LINK_MODE=copy UV_CACHE_DIR=/var/cache/uv
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# Another lock is another installer.
uv=$UV_CACHE_DIR/uv-$(sha256sum "$here/tools.lock" | cut -c 1-16)
# uv is kept where it keeps what it fetches, for the next image; renamed in one step, as two may come at once.
if [ ! -x "$uv" ]; then
    python3.11 -m venv /tmp/tools
    /tmp/tools/bin/pip install --quiet --no-cache-dir --no-deps --require-hashes --requirement "$here/tools.lock"
    cp /tmp/tools/bin/uv "$uv.$$"
    mv "$uv.$$" "$uv"
    rm -r /tmp/tools
fi
what=$1
shift
case $what in
dependencies)
    extras=
    for extra; do extras="$extras --extra $extra"; done
    python3.11 -m venv --without-pip /opt/shadowprice
    # shellcheck disable=SC2086 # one word each
    "$uv" pip install --no-progress --python /opt/shadowprice/bin/python \
        --require-hashes --constraint "$here/requirements.lock" --requirement pyproject.toml $extras
    # Nobody imports the packages' own tests, a fifth of the code; some files are of other Pythons and do not compile.
    python3.11 -m compileall -q -j 0 -x '/tests?/' /opt/shadowprice/lib >/dev/null || true
    ;;
package)
    "$uv" pip install --no-progress --compile-bytecode --python python3.11 --build-constraint "$here/tools.lock" \
        --no-deps --target /opt/package .
    ;;
inventory)
    # In an environment of its own: the list holds what the image has, and not what writes the list.
    python3.11 -m venv --without-pip /tmp/tools
    "$uv" pip install --no-progress --quiet --python /tmp/tools/bin/python --no-deps --require-hashes \
        --requirement "$here/tools.lock"
    /tmp/tools/bin/python -m cyclonedx_py environment --output-reproducible \
        --output-file /opt/shadowprice/sbom.cdx.json /opt/shadowprice/bin/python
    rm -r /tmp/tools
    ;;
*)
    echo "install.sh: no step $what" >&2
    exit 2
    ;;
esac
