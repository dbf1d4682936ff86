"""What a process has started ends with it, also when it is killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAMS = {
    "alone": """
        from shadowprice.lifeline import end_with_parent
        end_with_parent()
        import time
        print("ready", flush=True)
        time.sleep(600)
        """,
    "with what it started": """
        from shadowprice.lifeline import end_with_parent
        end_with_parent(group=True)
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(600)", sys.argv[1]])
        """,
}
PARENT = """
    import sys
    from shadowprice.lifeline import Child
    group = {"process_group": 0} if sys.argv[3] == "group" else {}
    with Child([sys.executable, "-c", sys.argv[1], sys.argv[2]], **group) as child:
        child.wait()
    """


@pytest.mark.parametrize("program", list(PROGRAMS))
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_when_its_parent_is_killed(
    program: str, kind: signal.Signals, tmp_path: Path, eventually, running
) -> None:
    mark = str(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(PARENT), textwrap.dedent(PROGRAMS[program]), mark]
    with subprocess.Popen(
        [*command, "group" if program != "alone" else ""], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        assert len(running(mark)) == (2 if program == "alone" else 3)
        parent.send_signal(kind)
        parent.wait()
    eventually(lambda: not running(mark))


def test_without_a_lifeline_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "from shadowprice.lifeline import end_with_parent; end_with_parent(); import time; time.sleep(0.5); print(1)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "1\n"


def test_a_child_that_ends_first_leaves_no_descriptor() -> None:
    from shadowprice.lifeline import Child

    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with Child([sys.executable, "-c", "pass"]) as child:
            assert child.wait(60) == 0
        del child
    assert len(os.listdir("/proc/self/fd")) == before
