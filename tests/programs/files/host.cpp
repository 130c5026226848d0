#include <cuda_runtime.h>

#include "deep/point.h"
#ifdef __CUDACC__
#error "this is g++'s"
#endif
static int min(int a, int b) { return a < b ? a : b; } // g++ declares no min()
int in_cpp(Point p) { return min(p.twice() + OFFSET, 99); }
