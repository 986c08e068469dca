"""`python -m ape_cli` is `ape`."""

if __name__ == "__main__":  # workers of `ape gen` import this file too, and have no use for the command line
    from ape_cli.cli import main

    main()
