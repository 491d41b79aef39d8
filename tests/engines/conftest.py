"""Tests of engines that are heavy to install; each has a make target of its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
