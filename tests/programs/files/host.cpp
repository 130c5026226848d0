#include <cuda_runtime.h>

#include "deep/point.h"
#ifdef __CUDACC__
#error "this is g++'s"
#endif
static int min(int a, int b) { return a < b ? a : b; } // g++ has none
int in_cpp(Point p) { return min(p.twice() + OFFSET, 99); }
