"""`python -m ape_cli` is `ape`."""

from ape_cli.cli import main

if __name__ == "__main__":
    main()
