"""``python -m tvdbayes`` is the command line."""

from tvdbayes.cli import main

if __name__ == "__main__":
    main(prog_name="tvdbayes")
