/* Compute y (n,d) = x * rstd * weight (d) for each row of x (n,d). rstd (n) is
 * 1 over the root of the row's mean square plus eps, for the backward pass.
 */
int weft_unitrms(int rung, float *y, float *rstd, const float *x,
                 const float *weight, int n, int d, float eps,
                 weft_stream stream);

/* Compute dx (n,d) and dweight (d) from dy (n,d), x, weight and rstd. */
int weft_unitrms_backward(int rung, float *dx, float *dweight, const float *dy,
                          const float *x, const float *weight,
                          const float *rstd, int n, int d, weft_stream stream);
