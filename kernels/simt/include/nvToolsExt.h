/* nvToolsExt.h -- where NVTX version 2 had it. */
#include "nvtx3/nvToolsExt.h"
