/* cuda_pipeline.h -- what is not simulated. */
#error "cuda_pipeline.h is not simulated: use cg::memcpy_async, or a GPU"
