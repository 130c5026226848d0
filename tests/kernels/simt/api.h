/* api.h -- the macros of tests/kernels/simt/api_*.cu. */
#include <cuda_runtime.h>
#include <initializer_list>
#include <stdint.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* check_<name>() returns 0 or the number of the first line that is wrong. */
#define CHECK(name) EXPORT int check_##name(void)
#define EXPECT(condition) \
    if (!(condition)) return __LINE__
/* The call fails with this error, which becomes the last error. */
#define EXPECT_ERROR(call, error) \
    if ((call) != (error) || cudaGetLastError() != (error)) return __LINE__
