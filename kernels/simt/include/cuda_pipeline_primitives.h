/* cuda_pipeline_primitives.h -- the functions of cuda_pipeline.h. */
#include "cuda_pipeline.h"
