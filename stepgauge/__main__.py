"""``python -m stepgauge``: the command line."""

from stepgauge.cli import main

if __name__ == "__main__":
    main()
