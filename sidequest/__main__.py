"""`python -m sidequest` is the command `sidequest`."""

from sidequest.cli import main

main()
