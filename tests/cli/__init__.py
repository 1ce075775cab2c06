"""Commands are called in this process, as the console script calls them."""

import jax
import pytest

from sidequest.cli import main


def run(*arguments) -> int:
    """Returns the exit code of `sidequest …`."""
    jax.local_devices()  # so that no command changes their number for later tests
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)
