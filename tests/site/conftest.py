"""The modules of docs/site, which are scripts, not a package."""

import sys

from weft.base.paths import ROOT

sys.path.insert(0, str(ROOT / "docs" / "site"))
