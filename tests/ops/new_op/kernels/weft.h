/* y = x * rstd * weight, per row of x (n,d), where rstd (n) is 1 over the root of
 * the row's mean square plus eps; y like x, weight (d). rstd is kept for the
 * backward pass. */
int weft_rmsnorm(int rung, float *y, float *rstd, const float *x,
                 const float *weight, int n, int d, float eps,
                 weft_stream stream);

/* dx like x, dweight (d), from dy and what the forward pass kept. */
int weft_rmsnorm_backward(int rung, float *dx, float *dweight, const float *dy,
                          const float *x, const float *weight,
                          const float *rstd, int n, int d, weft_stream stream);
