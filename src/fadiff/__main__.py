"""`python -m fadiff`: the command line."""

from fadiff.cli import main

if __name__ == "__main__":
    main()
