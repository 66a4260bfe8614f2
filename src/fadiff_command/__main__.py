"""`python -m fadiff_command`: the command line."""

from fadiff_command import main

if __name__ == "__main__":
    main()
