/* limits.cu -- at which clock the multiprocessors run.
 *
 * Each counts its cycles from when it was switched on. The counter and the time
 * before and behind some work give the clock in between. */

/* at (multiprocessors,2): the cycle and the nanosecond at which each is asked.
 * With many more blocks than multiprocessors every one of them gets some. */
__global__ void stamp(long long *at) {
    unsigned here;
    long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    at[2 * here] = clock64();
    at[2 * here + 1] = now;
}
