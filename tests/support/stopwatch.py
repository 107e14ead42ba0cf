"""Measures how long programs take, less the time in which they were ready to run and other programs had the processors:
on a quiet machine the time by the clock, on a loaded one about what it would have been there."""
import os
import pathlib
import time


def _waited(pid):
    """Seconds that the threads of a process have waited for a processor; 0 where the system does not tell."""
    nanoseconds = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            nanoseconds += int(path.read_text().split()[1])
        except (OSError, IndexError):  # the thread has ended
            pass
    return nanoseconds * 1e-9


class Stopwatch:
    """Runs from now on, for these processes and the one that measures."""

    def __init__(self, *pids):
        self.pids = (*pids, os.getpid())
        self.waited = [_waited(pid) for pid in self.pids]
        self.began = time.perf_counter()

    def add(self, pid):
        """Includes a process that has just been started."""
        self.pids += (pid,)
        self.waited.append(0.0)

    def took(self):
        elapsed = time.perf_counter() - self.began
        return max(0.0, elapsed - sum(max(0.0, _waited(pid) - before) for pid, before in zip(self.pids, self.waited)))
