#include "deep/point.h"
#ifdef __CUDACC__
#error "this is g++'s"
#endif
int in_cpp(Point p) { return p.twice() + OFFSET; }
