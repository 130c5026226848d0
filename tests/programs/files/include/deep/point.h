/* point.h -- a header for nvcc, g++ and gcc. */
#ifndef POINT_H
#define POINT_H
#ifdef __CUDACC__
#define BOTH __host__ __device__
#else
#define BOTH
#endif
#ifdef __cplusplus
struct Point {
    int x;
    BOTH int twice() const { return 2 * x; }
};
int in_cpp(Point p);
extern "C"
#endif
    int in_c(int x);
#endif
