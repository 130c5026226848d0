/* nvToolsExt.h -- the path of NVTX version 2. */
#include "nvtx3/nvToolsExt.h"
