"""Import the modules of docs/slides and docs/site, which are scripts, not packages."""

import sys

from weft.base.paths import ROOT

sys.path[:0] = [str(ROOT / "docs" / "slides"), str(ROOT / "docs" / "site")]
