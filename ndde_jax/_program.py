"""A runner for programs that Ctrl-C ends at once, without losing what is finished."""

import os
import signal
import threading
from collections.abc import Callable

from ._atomic import drop_partial

INTERRUPTED = 130


def run_program(work: Callable[[], int], farewell: Callable[[], str]) -> int:
    """Run the work of a whole process, which Ctrl-C and SIGTERM end within moments.

    The work is done in a thread, since Python could not raise in the main thread while XLA compiles
    there, for many seconds, and what it then raises in the middle of XLA can end in a segmentation
    fault. The main thread waits, and when told to leave says `farewell()` and ends the process as
    it is, which loses nothing where files are there entirely or not at all.

    Returns what the work returns and raises what it raises. In another thread than the main one,
    where no signal arrives, it just does the work.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome, errors = [], []

    def run():
        try:
            outcome.append(work())
        except BaseException as error:
            errors.append(error)

    def leave(*_):
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        drop_partial()
        try:
            # Past Python's own buffer: the other thread may be writing there.
            os.write(2, f"{farewell()}\n".encode())
        except OSError:
            pass
        os._exit(INTERRUPTED)

    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, leave)
    thread = threading.Thread(target=run, name="work", daemon=True)
    thread.start()
    while thread.is_alive():
        # Windows delivers signals only between waits.
        thread.join(0.2)
    for number in signals:
        signal.signal(number, signal.SIG_IGN)  # it is over
    if errors:
        raise errors[0]
    return outcome[0]
