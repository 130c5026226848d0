/* nvToolsExt.h -- the header of NVTX version 2, at its own path. */
#include "nvtx3/nvToolsExt.h"
