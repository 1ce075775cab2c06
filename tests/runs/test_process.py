"""What people hear of a signal, and by whom: a panel must not write over it."""

import io
import os
import signal
import time

from rich.console import Console

from sidequest.runs.display import Panel
from sidequest.runs.process import _ONE_SIGNAL, SAVING, SIGNALS, StopSignal


def ask(interrupts: StopSignal) -> None:
    """Sends this process a signal, and waits until it was heard."""
    os.kill(os.getpid(), signal.SIGTERM)
    while not interrupts.requested:
        time.sleep(0.01)
    assert interrupts.requested == "SIGTERM"


def test_the_panel_itself_says_that_a_signal_was_heard(capfd):
    paper = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with Panel(paper) as panel:
        with StopSignal(panel.say) as interrupts:
            ask(interrupts)
    assert f"SIGTERM: {SAVING}\n" in paper.file.getvalue()  # type: ignore
    assert not capfd.readouterr().err


def test_without_a_display_it_goes_to_standard_error(capfd):
    with StopSignal() as interrupts:
        ask(interrupts)
    assert capfd.readouterr().err == f"\nSIGTERM: {SAVING}\n"


def test_nothing_is_left_open_where_all_signals_are_ignored():
    def open_files() -> int:
        return len(os.listdir("/dev/fd"))

    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        opened = open_files()
        with StopSignal() as interrupts:
            os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.requested is None
        assert open_files() == opened
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_display_that_fails_does_not_end_listening(monkeypatch):
    left = []
    monkeypatch.setattr("os._exit", left.append)

    def fail(text):
        raise RuntimeError(text)

    with StopSignal(fail) as interrupts:
        ask(interrupts)
        time.sleep(_ONE_SIGNAL + 0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        while not left:
            time.sleep(0.01)
    assert left[:1] == [128 + signal.SIGTERM]
