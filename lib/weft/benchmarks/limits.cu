/* limits.cu -- the clock frequency of the multiprocessors.
 *
 * Each multiprocessor counts its cycles. The counter and the time before and
 * after some work yield the average frequency in between. */

/* at (multiprocessors,2) = cycle counter and time in nanoseconds of each.
 * Launch many more blocks than multiprocessors, so that each runs some. */
__global__ void stamp(long long *at) {
    unsigned here;
    long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    at[2 * here] = clock64();
    at[2 * here + 1] = now;
}
