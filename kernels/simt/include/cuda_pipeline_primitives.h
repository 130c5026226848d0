/* cuda_pipeline_primitives.h -- the same functions under their own header. */
#include "cuda_pipeline.h"
