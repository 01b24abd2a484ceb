"""``python -m paictl``."""

from paictl.cli.main import main

main()
