"""The modules of docs/site, which are scripts and no package."""

import sys

from weft.base.paths import ROOT

sys.path.append(str(ROOT / "docs" / "site"))
