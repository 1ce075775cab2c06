from sidequest.cli import main

main()
