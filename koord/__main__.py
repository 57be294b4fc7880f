"""`python -m koord`."""

from koord.cli.main import main

main()
