"""Checks of the installation and the machine."""

import os
import shutil
import socket
from importlib.util import find_spec

from cli.doctor.finding import Finding, Findings, Target
from shadowprice.allocation.kernel import compiled

PYTHON = (3, 11)
"""Version that is tested."""
PACKAGES = {
    "duckdb": "tables",
    "torch": "learn",
    "ray": "ray",
    "feast": "features",
    "kserve": "serve",
    "orjson": "ledger",
    "kfp": "pipelines",
}
"""Package that is imported → extra that installs it."""
PROGRAMS = ("helm", "kubectl")


def python(target: Target) -> Findings:
    """Check the version of Python."""
    if target.python != PYTHON:
        version, wanted = (".".join(map(str, numbers)) for numbers in (target.python, PYTHON))
        yield Finding("python", f"Python {version} is not supported", f"install Python {wanted}")


def kernel(_target: Target) -> Findings:
    """Check that the allocation runs compiled."""
    if os.environ.get("SHADOWPRICE_KERNEL") == "numpy":
        yield Finding("kernel", "SHADOWPRICE_KERNEL=numpy turns the compiled kernel off", "unset the variable")
    elif compiled.LIBRARY is None:
        mend = "install a C compiler and then the package again"
        yield Finding("kernel", "the compiled kernel of the allocation is missing", mend)


def packages(_target: Target) -> Findings:
    """Check that the packages of all extras can be found."""
    for name, extra in PACKAGES.items():
        if find_spec(name) is None:
            yield Finding("packages", f"{name} is not installed", f"run pip install 'shadowprice[{extra}]'")


def programs(_target: Target) -> Findings:
    """Note the programs that only an installation on a cluster needs."""
    for name in PROGRAMS:
        if shutil.which(name) is None:
            mend = "install it before you install on a cluster"
            yield Finding("programs", f"{name} is not on the path", mend, note=True)


def disk(target: Target) -> Findings:
    """Check the free space where the workspace lies."""
    if target.workspace is None or not target.workspace.is_dir():
        return
    free = shutil.disk_usage(target.workspace).free / 1e9
    if free < target.free_gb:
        fault = f"the disk of {target.workspace} has {free:.1f} GB free, under {target.free_gb:g} GB"
        yield Finding("disk", fault, "remove old runs or move the workspace")


def ports(target: Target) -> Findings:
    """Check that the ports of the services are free on this machine."""
    for port in target.ports:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                mend = "stop the program that listens there or choose another port"
                yield Finding("ports", f"port {port} cannot be used: {error.strerror}", mend)
