"""`python -m plait`: the same command as `plait`."""

from plait.cli.main import main

if __name__ == "__main__":
    main()
