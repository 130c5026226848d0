"""The modules of docs/slides and docs/site, which are scripts and no packages."""

import sys

from weft.base.paths import ROOT

sys.path[:0] = [str(ROOT / "docs" / "slides"), str(ROOT / "docs" / "site")]
